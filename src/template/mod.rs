//! Job templates (ERB): the evaluation context and the renderer behind one trait.
