"""The whole warden under toxics, kills and faults at random steps, and a judge that reads the record of its writes."""
