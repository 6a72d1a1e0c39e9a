// Package schematest lets tests hold messages against the official schemas of
// the protocol: each against the definition of its own method, never against
// "any message". It is imported by tests only.
//
// The schemas are not part of this repository. They are looked for in a folder
// shared/schema beside the checkout: 2024-11-05.schema.json and so on, one a
// revision, and ext-tasks.schema.json of the tasks extension. Where they are
// absent a test is skipped and says so; with TASKBRIDGE_E2E=require it fails,
// unless TASKBRIDGE_SCHEMAS=skip says that this machine has none.
package schematest
