//! Chains, channels, tasks, the coordinator driver and the DataStream API.
