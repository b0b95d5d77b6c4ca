//! What users and connectors implement: functions, operators, sources and sinks.
