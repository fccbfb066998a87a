-- Calls that are over and whose telemetry is still to be exported.
create index attended_call_by_export on attended_call (tenant, telemetry, settled_ms);
