//! What it means to be a backend, a storage or a transactional sink, as tests anyone can run on theirs.
