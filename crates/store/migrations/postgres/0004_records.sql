-- Notes of many kinds lie beside an aggregate, and each kind is read by itself.

CREATE INDEX notes_by_kind ON notes (tenant, id, kind, seq);
