//! The CPI's RPC: types, negotiation of the contract, and the process runner.
