package translate

import (
	"strconv"

	"taskbridge/translate/jsonrpc"
)

// Task statuses are the same five words in both eras.
const (
	Working       = "working"
	InputRequired = "input_required"
	Completed     = "completed"
	Failed        = "failed"
	Cancelled     = "cancelled"
)

// Terminal: no transition leaves it (2025-11-25 tasks, Task Status
// Lifecycle; tasks extension, Task Status).
func Terminal(status string) bool {
	return status == Completed || status == Failed || status == Cancelled
}

// When a status row applies beyond the status itself.
const (
	always     = "always"
	plain      = "result without isError"
	toolErrors = "result with isError"
	ofError    = "JSON-RPC error"
)

type statusRow struct {
	Modern, When, Legacy string
	Note                 string
}

// statuses: what becomes of a task's status. Toward legacy a tool result with
// isError makes the task failed (2025-11-25 tasks, Task Status); toward
// modern failed is kept for JSON-RPC errors (tasks extension, Task Status).
var statuses = []statusRow{
	{Working, always, Working, ""},
	{InputRequired, always, InputRequired, "only while a question is in hand and unanswered, else working"},
	{Completed, plain, Completed, ""},
	{Completed, toolErrors, Failed, "statusMessage is the result's text; --tool-errors completed keeps completed"},
	{Failed, ofError, Failed, "tasks/result answers with the same error; statusMessage never empty"},
	{Cancelled, always, Cancelled, ""},
}

// LegacyStatus looks a modern task's status up in statuses. keepCompleted is
// --tool-errors completed. Words we do not know count as working: a legacy
// client goes on polling, and a later word decides.
func LegacyStatus(status string, isError, keepCompleted bool) string {
	when := always
	switch {
	case status == Completed && isError && !keepCompleted:
		when = toolErrors
	case status == Completed:
		when = plain
	case status == Failed:
		when = ofError
	}
	for _, r := range statuses {
		if r.Modern == status && r.When == when {
			return r.Legacy
		}
	}
	return Working
}

// ModernStatus is the inverse: a legacy task that ended with a result is
// completed, with an error failed, whatever word the server used.
func ModernStatus(legacy string, hasResult, hasError bool) string {
	switch {
	case hasError:
		return Failed
	case hasResult:
		return Completed
	}
	for _, r := range statuses {
		if r.Legacy == legacy && r.When == always {
			return r.Modern
		}
	}
	return Working
}

type memberRow struct {
	Modern, Legacy string
	Note           string
}

// members: the names a task's members have in each era.
var members = []memberRow{
	{"taskId", "taskId", "the handle toward the client, the server's own id toward the server"},
	{"status", "status", "see the status table"},
	{"statusMessage", "statusMessage", ""},
	{"createdAt", "createdAt", "the same string"},
	{"lastUpdatedAt", "lastUpdatedAt", "missing: createdAt"},
	{"ttlMs", "ttl", "milliseconds; null stays null, missing becomes null, fractions are rounded"},
	{"pollIntervalMs", "pollInterval", "milliseconds; null is left out, fractions are rounded"},
	{"resultType", "", "modern results only"},
	{"result", "", "legacy clients ask tasks/result"},
	{"error", "", "legacy clients ask tasks/result"},
	{"inputRequests", "", "legacy clients are asked by requests"},
	{"requestState", "", "stays with the proxy"},
}

// TaskView is how a task is shown, where it differs from what its server said.
type TaskView struct {
	ID      string
	Status  string
	Message string // statusMessage; empty: the server's own, if any
	// Created is createdAt where the task was shown before its server made it;
	// empty: the server's own.
	Created string
}

// editTask begins the edit of a task of either era by what neither keeps: members
// that only the modern one has (the new one's are added anew) and _meta.
func editTask(task jsonrpc.Value) *jsonrpc.Edit {
	e := task.Edit()
	for _, r := range members {
		if r.Legacy == "" {
			deleteMember(e, task, r.Modern)
		}
	}
	deleteMember(e, task, "_meta")
	return e
}

// TaskToLegacy makes a legacy Task object from a modern one (flat). Unknown
// members stay; _meta does not belong inside a Task and goes.
func TaskToLegacy(task jsonrpc.Value, v TaskView) []byte {
	e := editTask(task)
	renameNumber(e, task, "ttlMs", "ttl", true)
	renameNumber(e, task, "pollIntervalMs", "pollInterval", false)
	finishTask(e, task, v)
	return e.Bytes()
}

// MetaBesideTask is the _meta of a modern tasks/get result as a legacy one
// carries it, nil for none: a Task has none in it, a result may have one beside
// it, but no related-task (2025-11-25 tasks, Associating Task-Related Messages).
func MetaBesideTask(task jsonrpc.Value) []byte {
	meta := keptMeta(task, MetaServerInfo)
	if meta == nil {
		return nil
	}
	v, err := jsonrpc.ParseValue(meta)
	if err != nil {
		return nil
	}
	e := v.Edit()
	deleteMember(e, v, MetaRelatedTask)
	deleteMember(e, v, MetaSubscription) // of a notification that brought the task
	if raw := e.Bytes(); string(raw) != "{}" {
		return raw
	}
	return nil
}

// WithMeta puts it beside a Task that becomes a result.
func WithMeta(task, meta []byte) []byte {
	v := ParseResult(task)
	if meta == nil || !v.Exists() {
		return task
	}
	e := v.Edit()
	e.Insert(v, "_meta", meta)
	return e.Bytes()
}

// taskToModern starts the flat members of a modern task from a legacy Task;
// callers add what the message around it needs.
func taskToModern(task jsonrpc.Value, v TaskView) *jsonrpc.Edit {
	e := editTask(task)
	renameNumber(e, task, "ttl", "ttlMs", true)
	renameNumber(e, task, "pollInterval", "pollIntervalMs", false)
	finishTask(e, task, v)
	return e
}

func deleteMember(e *jsonrpc.Edit, obj jsonrpc.Value, key string) {
	if v := obj.Get(key); v.Exists() {
		e.Delete(v)
	}
}

// finishTask writes id, status and message over and fills what both eras
// require: createdAt and lastUpdatedAt.
func finishTask(e *jsonrpc.Edit, task jsonrpc.Value, v TaskView) {
	setMember(e, task, "taskId", jsonrpc.Quote(v.ID))
	setMember(e, task, "status", jsonrpc.Quote(v.Status))
	if v.Message != "" {
		setMember(e, task, "statusMessage", jsonrpc.Quote(v.Message))
	} else if m := task.Get("statusMessage"); m.Exists() && m.Type() != jsonrpc.String {
		e.Delete(m)
	}
	created := task.Get("createdAt")
	createdRaw := created.Raw()
	if v.Created != "" {
		createdRaw = jsonrpc.Quote(v.Created)
		setMember(e, task, "createdAt", createdRaw)
	} else if created.Type() != jsonrpc.String {
		createdRaw = []byte(`"1970-01-01T00:00:00Z"`)
		setMember(e, task, "createdAt", createdRaw)
	}
	if updated := task.Get("lastUpdatedAt"); updated.Type() != jsonrpc.String {
		setMember(e, task, "lastUpdatedAt", createdRaw)
	}
}

// renameNumber gives a duration its other name. Units are never scaled.
// required: null and missing are written as null, else they are left out.
// Some servers of each era use the other's name; it counts where the right
// one is missing and never stays beside it.
func renameNumber(e *jsonrpc.Edit, obj jsonrpc.Value, from, to string, required bool) {
	v := obj.Get(from)
	if !v.Exists() {
		v = obj.Get(to)
	} else {
		deleteMember(e, obj, to)
	}
	n, ok := wireMillis(v)
	switch {
	case ok:
		e.Rename(v, to)
		if raw := strconv.FormatInt(n, 10); raw != string(v.Raw()) {
			e.Replace(v, []byte(raw))
		}
	case !required:
		if v.Exists() {
			e.Delete(v)
		}
	case v.Exists():
		e.Rename(v, to)
		e.Replace(v, []byte("null"))
	default:
		e.Insert(obj, to, []byte("null"))
	}
}

// wireMillis is a duration as it is shown: whole numbers as they came, be they
// as large as a peer likes (2^53-1 for ever), the rest as Milliseconds reads it.
func wireMillis(v jsonrpc.Value) (int64, bool) {
	if n, ok := v.Int(); ok && n >= 0 {
		return n, true
	}
	return Milliseconds(v)
}

// maxMillis clamps durations from peers: a hundred years.
const maxMillis = 100 * 366 * 24 * 3600 * 1000

// Milliseconds reads a duration member: fractions rounded, out of range
// clamped; ok is false for null, missing, negative or not a number.
func Milliseconds(v jsonrpc.Value) (int64, bool) {
	if v.Type() != jsonrpc.Number {
		return 0, false
	}
	f, _ := v.Float() // ±Inf when out of a float's range
	if f < 0 {
		return 0, false
	}
	if f > maxMillis {
		return maxMillis, true
	}
	return int64(f + 0.5), true
}

// ParseResult reads the raw bytes of a result that was kept, with the same
// objects open to rules as when it came (jsonrpc.Decode's own table).
func ParseResult(raw []byte) jsonrpc.Value {
	m, err := jsonrpc.Decode(jsonrpc.NewResult(jsonrpc.IntID(0), raw), jsonrpc.Limits{})
	if err != nil {
		return jsonrpc.Value{}
	}
	return m.Result()
}

// TaskOf finds the task in a result that carries one: flat (modern) or
// nested (legacy); some servers of each era send the other's shape.
func TaskOf(result jsonrpc.Value) jsonrpc.Value {
	if t := result.Get("task"); t.Type() == jsonrpc.Object && t.Get("taskId").Exists() {
		return t
	}
	if kind, _ := result.Get("resultType").Str(); kind == "task" && result.Get("taskId").Exists() {
		return result
	}
	return jsonrpc.Value{}
}

// CreateToLegacy makes a CreateTaskResult (2025-11-25 tasks, Creating Tasks)
// from a server's task; _meta beside it stays beside it.
func CreateToLegacy(result, task jsonrpc.Value, v TaskView) []byte {
	b := jsonrpc.NewObject().Raw("task", TaskToLegacy(task, v))
	for _, m := range beside(result, task) {
		b.Raw(m.key, m.raw)
	}
	if meta := keptMeta(result, MetaServerInfo); meta != nil {
		b.Raw("_meta", meta)
	}
	return b.Bytes()
}

// CreateToModern makes the flat CreateTaskResult of the tasks extension.
func CreateToModern(result, task jsonrpc.Value, v TaskView, serverInfo []byte) []byte {
	e := taskToModern(task, v)
	for _, m := range beside(result, task) {
		e.Insert(task, m.key, m.raw)
	}
	e.Insert(task, "resultType", []byte(`"task"`))
	insertMeta(e, task, keptMeta(result, MetaRelatedTask), serverInfo)
	return e.Bytes()
}

// beside returns what a nested CreateTaskResult holds beside its task and no
// rule owns, unless the task has a member of that name.
func beside(result, task jsonrpc.Value) (out []member) {
	if !result.Get("task").Exists() || result.Get("taskId").Exists() {
		return nil
	}
	for key, v := range result.Members() {
		if key == "task" || key == "_meta" || taskMember(key) || task.Get(key).Exists() {
			continue
		}
		out = append(out, member{key, v.Raw()})
	}
	return out
}

// taskMember: a name that members gives a task in either era.
func taskMember(key string) bool {
	for _, r := range members {
		if key == r.Modern || key == r.Legacy {
			return true
		}
	}
	return false
}

// keptMeta returns result's _meta without the named key, or nil.
func keptMeta(result jsonrpc.Value, drop string) []byte {
	meta := result.Get("_meta")
	if meta.Type() != jsonrpc.Object {
		return nil
	}
	if !meta.Tracked() {
		open, err := meta.Parse()
		if err != nil {
			return nil // a repeated member: none of the two can be trusted
		}
		meta = open
	}
	v := meta.Get(drop)
	if !v.Exists() {
		return meta.Raw()
	}
	if meta.Len() == 1 {
		return nil
	}
	e := meta.Edit()
	e.Delete(v)
	return e.Bytes()
}

// insertMeta writes a _meta that joins kept with our serverInfo.
func insertMeta(e *jsonrpc.Edit, obj jsonrpc.Value, kept, serverInfo []byte) {
	switch {
	case len(serverInfo) == 0 && kept == nil:
	case len(serverInfo) == 0:
		e.Insert(obj, "_meta", kept)
	case kept == nil:
		e.Insert(obj, "_meta", jsonrpc.NewObject().Raw(MetaServerInfo, serverInfo).Bytes())
	default:
		meta, err := jsonrpc.ParseValue(kept)
		if err != nil {
			return
		}
		me := meta.Edit()
		setMember(me, meta, MetaServerInfo, serverInfo)
		e.Insert(obj, "_meta", me.Bytes())
	}
}

// WithTaskID gives a Task its taskId.
func WithTaskID(task jsonrpc.Value, id string) []byte {
	e := task.Edit()
	setMember(e, task, "taskId", jsonrpc.Quote(id))
	return e.Bytes()
}

// Restate writes status, statusMessage (empty: kept) and, where updated is not
// empty, lastUpdatedAt over on a legacy Task that was shown before.
func Restate(task jsonrpc.Value, status, message, updated string) []byte {
	e := task.Edit()
	setMember(e, task, "status", jsonrpc.Quote(status))
	if message != "" {
		setMember(e, task, "statusMessage", jsonrpc.Quote(message))
	}
	if updated != "" {
		setMember(e, task, "lastUpdatedAt", jsonrpc.Quote(updated))
	}
	return e.Bytes()
}

// WithoutMessage drops a legacy Task's statusMessage.
func WithoutMessage(task jsonrpc.Value) []byte {
	e := task.Edit()
	deleteMember(e, task, "statusMessage")
	return e.Bytes()
}
