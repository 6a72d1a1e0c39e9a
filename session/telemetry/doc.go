// Package telemetry tells OpenTelemetry of requests, by the semantic conventions
// of the Model Context Protocol (open-telemetry/semantic-conventions-genai,
// docs/gen-ai/mcp.md): a server span and a duration for what a client asks, a
// client span and a duration for each message that goes to a server because of
// it, with the trace context in params._meta (SEP-414); the same the other way
// round for what a legacy server asks; and how long legacy sessions last.
package telemetry
