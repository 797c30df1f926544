"""Features: how a vector of observed numbers becomes the inputs of a linear learner, or one of finitely many cells."""
