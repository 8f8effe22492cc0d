// What the frames of a scene say at a moment. Nothing here draws.

/** The moment at which all that a scene shows is over. */
export const endOf = (scene) => Math.max(scene.frames.at(-1).at, ...(scene.marks ?? []).map((mark) => mark.stop));

/** What a scene is called beside another: its title up to the colon, without its question mark. */
export const nameOf = ({ title }) => title.split(/[:?.]/)[0];

/** What was found in a scene, after the name that its title has before a colon. */
export function foundIn({ title, finding }) {
  const [name] = title.split(":");
  return name === title || finding.startsWith(name) ? finding : `${name}: ${finding}`;
}

/** A moment with its unit: "100 ms", but "block 2", which is a place and no amount. */
export const momentOf = (label, unit) => (unit === "block" ? `${unit} ${label}` : `${label} ${unit}`);

/** The moments at which any of the scenes has a frame, in order. */
export const momentsOf = (scenes) =>
  [...new Set(scenes.flatMap((scene) => scene.frames.map((frame) => frame.at)))].sort((a, b) => a - b);

/** The frame of a scene that counts at a moment: the last one that has begun. */
export const frameAt = (scene, at) => scene.frames.filter((frame) => frame.at <= at).at(-1) ?? null;

/** What a scene has to say at a moment: its caption, or that nothing new happens, or that it is over. */
export function toldAt(scene, at) {
  const frame = frameAt(scene, at);
  if (!frame) return "not begun";
  if (frame.at === at) return frame.caption;
  return at >= endOf(scene) ? "over" : "nothing new";
}
