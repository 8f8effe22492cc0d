"""What a reader may change in a figure: pure functions from numbers to scenes, a file a chapter.

They run in a notebook's kernel and, on the published page, in the reader's browser.
"""
