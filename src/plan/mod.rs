//! Pure: what is (state) and what is wanted (manifest, artifacts) to an ordered list of steps, each with its reason.
