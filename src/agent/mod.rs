//! Talks to the agent on the VM: the HTTPS mbus client and its blobstore.
