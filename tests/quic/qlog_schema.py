"""The schema of a qlog file of noq-proto, as JSON Schema.

After the CDDL of draft-ietf-quic-qlog-main-schema-13 and draft-ietf-quic-qlog-quic-events-12. The
extensions for several paths and for the frequency of acknowledgements add fields (`EXTENSIONS`), at
places that the drafts leave open for that, and frames that they do not name.
"""

from typing import Any

Schema = dict[str, Any]

UINT: Schema = {"type": "integer", "minimum": 0}
PORT: Schema = {**UINT, "maximum": 65535}
NUMBER: Schema = {"type": "number"}
TEXT: Schema = {"type": "string"}
BOOL: Schema = {"type": "boolean"}
HEX: Schema = {"type": "string", "pattern": "^([0-9a-f]{2})*$"}
TOKEN: Schema = {"type": "string", "pattern": "^[0-9a-f]{32}$"}


def one_of(*values: str) -> Schema:
    """One of these texts."""
    return {"enum": list(values)}


def array(items: Schema, least: int = 0) -> Schema:
    """An array of at least so many items."""
    return {"type": "array", "items": items, "minItems": least}


def record(required: dict[str, Schema], optional: dict[str, Schema] | None = None) -> Schema:
    """An object without other fields."""
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": False,
    }


# ------------------------------------------------------------------ the header

REFERENCE_TIME = {
    **record({"clock_type": {**TEXT, "minLength": 1}, "epoch": TEXT}, {"wall_clock_time": TEXT}),
    "if": {"properties": {"clock_type": {"const": "monotonic"}}},
    "then": {"properties": {"epoch": {"const": "unknown"}}},
}
COMMON_FIELDS: Schema = {  # any other field may follow
    "type": "object",
    "properties": {
        "group_id": TEXT,
        "time_format": one_of("relative_to_epoch", "relative_to_previous_event"),
        "reference_time": REFERENCE_TIME,
    },
}
END = one_of("client", "server", "unknown")
TRACE = record(
    {"event_schemas": array({**TEXT, "pattern": "^urn:"}, 1)},
    {
        "title": TEXT,
        "description": TEXT,
        "common_fields": COMMON_FIELDS,
        "vantage_point": record(
            {"type": one_of("client", "server", "network", "unknown")}, {"name": TEXT, "flow": END}
        ),
    },
)
HEADER = record(
    {
        "file_schema": {"const": "urn:ietf:params:qlog:file:sequential"},
        "serialization_format": {"const": "application/qlog+json-seq"},
        "trace": TRACE,
    },
    {"title": TEXT, "description": TEXT},
)

# ------------------------------------------------------------------ frames

RAW = record({}, {"length": UINT, "payload_length": UINT, "data": HEX})
RAW_WITH_LENGTH = record({"length": UINT}, {"payload_length": UINT, "data": HEX})
STREAM_TYPE = one_of("unidirectional", "bidirectional")
STREAM = {"stream_id": UINT}
ERROR = {**STREAM, "error": TEXT}
RANGE = {**array(UINT, 1), "maxItems": 2}
FRAMES: dict[str, tuple[dict[str, Schema], dict[str, Schema]]] = {
    "padding": ({}, {}),
    "ping": ({}, {}),
    "ack": (
        {},
        {
            "ack_delay": NUMBER,
            "acked_ranges": array(RANGE, 1),
            "ect0": UINT,
            "ect1": UINT,
            "ce": UINT,
        },
    ),
    "reset_stream": ({**ERROR, "final_size": UINT}, {"error_code": UINT}),
    "stop_sending": (ERROR, {"error_code": UINT}),
    "crypto": ({"offset": UINT, "raw": RAW_WITH_LENGTH}, {}),
    "stream": (STREAM, {"offset": UINT, "fin": BOOL}),
    "max_data": ({"maximum": UINT}, {}),
    "max_stream_data": ({**STREAM, "maximum": UINT}, {}),
    "max_streams": ({"stream_type": STREAM_TYPE, "maximum": UINT}, {}),
    "data_blocked": ({"limit": UINT}, {}),
    "stream_data_blocked": ({**STREAM, "limit": UINT}, {}),
    "streams_blocked": ({"stream_type": STREAM_TYPE, "limit": UINT}, {}),
    "new_connection_id": (
        {"sequence_number": UINT, "retire_prior_to": UINT, "connection_id": HEX},
        {"connection_id_length": UINT, "stateless_reset_token": TOKEN},
    ),
    "retire_connection_id": ({"sequence_number": UINT}, {}),
    "path_challenge": ({}, {"data": HEX}),
    "path_response": ({}, {"data": HEX}),
    "handshake_done": ({}, {}),
}


def _frame(name: str) -> Schema:
    required, optional = FRAMES[name]
    kind = {"frame_type": {"const": name}}
    return record({**kind, **required}, {"raw": RAW, **optional} | required)


OTHER_FRAME: Schema = {
    "type": "object",
    "properties": {"frame_type": {**TEXT, "not": {"enum": list(FRAMES)}}},
    "required": ["frame_type"],
}
FRAME: Schema = {"anyOf": [*map(_frame, FRAMES), OTHER_FRAME]}

# ------------------------------------------------------------------ events

PATH_ID = {"path_id": UINT}
PACKET_HEADER = record(
    {
        "packet_type": one_of(
            "initial",
            "handshake",
            "0RTT",
            "1RTT",
            "retry",
            "version_negotiation",
            "stateless_reset",
            "unknown",
        )
    },
    {
        **dict.fromkeys(("packet_type_bytes", "key_phase", "packet_number_length"), UINT),
        **dict.fromkeys(("packet_number", "length", "scil", "dcil"), UINT),
        **dict.fromkeys(("version", "scid", "dcid"), HEX),
        **dict.fromkeys(("spin_bit", "key_phase_bit"), BOOL),
        "token": {"type": "object"},
        **PATH_ID,
    },
)
PACKET = {
    "frames": array(FRAME),
    "stateless_reset_token": TOKEN,
    "supported_versions": array(HEX, 1),
    "raw": RAW,
    "datagram_id": UINT,
}
SENT_TRIGGER = one_of(
    "retransmit_reordered",
    "retransmit_timeout",
    "pto_probe",
    "retransmit_crypto",
    "cc_bandwidth_probe",
)
ENDPOINT = record(
    {},
    {
        "ip_v4": TEXT,
        "port_v4": PORT,
        "ip_v6": TEXT,
        "port_v6": PORT,
        "connection_ids": array(HEX, 1),
    },
)
EXTENSIONS = {"min_ack_delay": UINT, "initial_max_path_id": UINT}
WINDOWS = ("initial_max_data", "initial_max_streams_bidi", "initial_max_streams_uni")
STREAM_WINDOWS = ("bidi_local", "bidi_remote", "uni")
LIMITS = ("max_idle_timeout", "max_udp_payload_size", "ack_delay_exponent", "max_ack_delay")
PARAMETERS = {
    **dict.fromkeys((*WINDOWS, *LIMITS, "active_connection_id_limit"), UINT),
    **dict.fromkeys((f"initial_max_stream_data_{kind}" for kind in STREAM_WINDOWS), UINT),
    "max_datagram_frame_size": UINT,
    **dict.fromkeys(("original_destination_connection_id", "retry_source_connection_id"), HEX),
    "initial_source_connection_id": HEX,
    "stateless_reset_token": TOKEN,
    **dict.fromkeys(("resumption_allowed", "early_data_enabled", "disable_active_migration"), BOOL),
    **dict.fromkeys(("grease_quic_bit", "reset_stream_at"), BOOL),
    "tls_cipher": TEXT,
    "initiator": one_of("local", "remote"),
    "unknown_parameters": array(record({"id": UINT}, {"value": HEX})),
    **EXTENSIONS,
}
METRICS = {
    **dict.fromkeys(("min_rtt", "smoothed_rtt", "latest_rtt", "rtt_variance"), NUMBER),
    **dict.fromkeys(("pto_count", "congestion_window", "bytes_in_flight", "ssthresh"), UINT),
    **dict.fromkeys(("packets_in_flight", "pacing_rate"), UINT),
    **PATH_ID,
}
DATA: dict[str, Schema] = {
    "quic:connection_started": record({"local": ENDPOINT, "remote": ENDPOINT}),
    "quic:tuple_assigned": record(
        {"tuple_id": TEXT}, {"tuple_remote": ENDPOINT, "tuple_local": ENDPOINT}
    ),
    "quic:parameters_set": record({}, PARAMETERS),
    "quic:packet_sent": record(
        {"header": PACKET_HEADER}, {**PACKET, "trigger": SENT_TRIGGER, "is_mtu_probe_packet": BOOL}
    ),
    "quic:packet_received": record(
        {"header": PACKET_HEADER}, {**PACKET, "trigger": one_of("keys_available")}
    ),
    "quic:packet_lost": record(
        {},
        {
            "header": PACKET_HEADER,
            "frames": array(FRAME),
            "is_mtu_probe_packet": BOOL,
            "trigger": one_of("reordering_threshold", "time_threshold", "pto_expired"),
        },
    ),
    "quic:recovery_metrics_updated": {**record({}, METRICS), "minProperties": 1},
    "quic:timer_updated": record(
        {"event_type": one_of("set", "expired", "cancelled")},
        {
            "timer_type": TEXT,
            "timer_id": UINT,
            "packet_number_space": one_of("initial", "handshake", "application_data"),
            "delta": NUMBER,
            **PATH_ID,
        },
    ),
}
EVENT: Schema = {
    "type": "object",
    "properties": {
        "time": {**NUMBER, "minimum": 0},
        "name": one_of(*DATA),
        "data": {"type": "object"},
        "tuple": TEXT,
        "group_id": TEXT,
    },
    "required": ["time", "name", "data"],
    "allOf": [
        {"if": {"properties": {"name": {"const": name}}}, "then": {"properties": {"data": data}}}
        for name, data in DATA.items()
    ],
}
