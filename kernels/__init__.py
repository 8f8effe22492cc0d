"""Operations of the live engine, one file each: a torch body, a Triton kernel, and the choice."""
