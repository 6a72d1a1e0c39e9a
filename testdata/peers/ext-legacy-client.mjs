// A legacy (2025-11-25) client on the v2 SDK, its default era, with ext-tasks in
// its first generation. ext-tasks polls tasks/get to the end and asks for the
// result then; a question has to come on another stream.
// node ext-legacy-client.mjs URL SCENARIO [--header 'Name: value']… [--task ID] [--seconds N]
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { createApplicationInputHandler, createTaskSessionFromClient } from '@modelcontextprotocol/ext-tasks/client';
import { errorFields, expectError, headersOf, parseArgs, runScenario, sleep, step, told } from './lib.mjs';
import { RELATED, elicited, resultFields, roots, sample, user } from './user.mjs';

const { options, positional } = parseArgs(process.argv.slice(2), ['header', 'task', 'seconds']);
const [url, scenario] = positional;
const closers = [];
let silent = false;

function elicit(params, { scope, taskId } = {}) {
  step('question', { message: params.message, mode: params.mode ?? 'form', scope: scope ?? 'none', related: taskId ?? null });
  if (silent) return new Promise(() => {});
  return elicited(params);
}

async function session({ headers = headersOf(options) } = {}) {
  const client = new Client({ name: 'ext-legacy-peer-client', version: '1.0.0' }, { capabilities: { elicitation: { form: {} }, sampling: {}, roots: {} } });
  client.seen = [];
  const previous = client.fallbackNotificationHandler;
  client.fallbackNotificationHandler = async note => {
    if (note.method === 'notifications/tasks/status' && client.seen.at(-1) !== note.params.status) client.seen.push(note.params.status);
    await previous?.(note);
  };
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));
  closers.push(() => client.close());
  const tasks = createTaskSessionFromClient(client, {
    endpointId: 'peer',
    onInputRequest: createApplicationInputHandler({
      elicitation: (request, context) => elicit(request.params, context),
      sampling: (request, { scope, taskId }) => sample(request.params, { scope, related: taskId ?? null }),
      roots
    }),
    onError: error => step('ext-tasks-error', { message: error.message })
  });
  closers.unshift(() => tasks.close());
  return { client, tasks };
}

const printResult = (name, result, taskId) =>
  step(name, {
    ...resultFields(result),
    ...(taskId ? { related: result._meta?.[RELATED]?.taskId === taskId } : {})
  });

function printOutcome(outcome, taskId) {
  step('outcome', { status: outcome.status });
  if (outcome.status === 'completed') printResult('result', outcome.result, taskId);
  if (outcome.status === 'failed') step('error', { error: { code: outcome.error.code ?? null, message: outcome.error.message } });
}

const call = (tasks, tool, args, preference = 'require') => tasks.callTool(tool, args, { task: { preference, ...(preference === 'require' && { retentionMs: 60_000 }) } });

/** Follows an execution to its end; stuck after 5 s in front of a question that nobody brings. */
async function follow(execution) {
  const statuses = [];
  let last;
  const settled = execution.settle({
    onEvent: event => {
      if (event.type !== 'task') return;
      last = event.task;
      if (statuses.at(-1) !== event.task.status) statuses.push(event.task.status);
    }
  });
  settled.catch(() => {});
  const stuck = sleep(5_000).then(() => (last?.status === 'input_required' ? 'stuck' : settled));
  const end = await Promise.race([settled, stuck]);
  step('polled', { statuses });
  if (end === 'stuck') return step('stuck', { status: last.status });
  printOutcome(end.outcome, execution.handle?.taskId);
}

async function drive(tool, args) {
  const { client, tasks } = await session();
  const execution = await call(tasks, tool, args);
  step('created', { kind: execution.kind });
  await follow(execution);
  return { client, tasks, execution };
}

const scenarios = {
  async initialize() {
    const { client, tasks } = await session();
    step('initialize', { era: client.getProtocolEra(), protocolVersion: client.getNegotiatedProtocolVersion(), capabilities: tasks.capabilities });
  },
  async plain() {
    const { tasks } = await session();
    const execution = await call(tasks, 'greet', { name: 'Ada' }, 'forbid');
    step('created', { kind: execution.kind });
    printOutcome((await execution.settle()).outcome);
  },
  quick: () => drive('slow_compute', { seconds: 0, label: 'now' }),
  task: () => drive('slow_compute', { seconds: 2, label: 'x' }),
  async notified() {
    const { client } = await drive('slow_compute', { seconds: 2, label: 'n' });
    await told(() => client.seen);
    step('notified', { statuses: client.seen });
  },
  /** The controller's result: by the word of the package polled, then fetched. */
  async 'task-result'() {
    const { tasks } = await session();
    const { handle } = await call(tasks, 'slow_compute', { seconds: 1, label: 'r' });
    const controller = tasks.task(handle.taskId);
    printOutcome(await controller.result(), handle.taskId);
    printOutcome(await controller.result(), handle.taskId);
  },
  async tasklist() {
    const { tasks } = await session();
    const made = [];
    for (let i = 0; i < 3; i++) made.push((await call(tasks, 'slow_compute', { seconds: 20, label: String(i) })).handle.taskId);
    const seen = [];
    let cursor;
    let pages = 0;
    do {
      const page = await tasks.listTasks(cursor);
      seen.push(...page.tasks.map(task => task.taskId));
      cursor = page.nextCursor;
      pages++;
    } while (cursor !== undefined && pages < 20);
    step('tasklist', { pages, found: made.filter(id => seen.includes(id)).length, repeated: seen.length - new Set(seen).size });
    for (const id of made) await tasks.cancelTask(id);
  },
  async cancel() {
    const { tasks } = await session();
    const execution = await call(tasks, 'slow_compute', { seconds: 60, label: 'c' });
    await execution.cancel();
    step('after', { status: (await tasks.task(execution.handle.taskId).snapshot()).status });
    printOutcome((await execution.settle()).outcome);
  },
  async 'cancel-waiting'() {
    const { tasks } = await session();
    const execution = await call(tasks, 'slow_compute', { seconds: 60, label: 'w' });
    const settled = execution.settle();
    await sleep(300);
    await tasks.task(execution.handle.taskId).cancel();
    printOutcome((await settled).outcome);
  },
  async 'cancel-finished'() {
    const { tasks, execution } = await drive('slow_compute', { seconds: 0, label: 'f' });
    await expectError('cancel', tasks.task(execution.handle.taskId).cancel(), -32602);
  },
  async 'unknown-task'() {
    const { tasks } = await session();
    await expectError('get', tasks.task('no-such-task').snapshot(), -32602);
    await expectError('cancel', tasks.task('no-such-task').cancel(), -32602);
  },
  question: () => drive('confirm_delete', { filename: 'a.txt' }),
  'question-decline': () => ((user.answer = 'decline'), drive('confirm_delete', { filename: 'a.txt' })),
  'question-cancel': () => ((user.answer = 'cancel'), drive('confirm_delete', { filename: 'a.txt' })),
  async 'question-abandon'() {
    silent = true;
    const { tasks } = await session();
    const execution = await call(tasks, 'confirm_delete', { filename: 'b.txt' });
    const controller = tasks.task(execution.handle.taskId);
    for (let i = 0; i < 50 && (await controller.snapshot()).status !== 'input_required'; i++) await sleep(50);
    await controller.cancel();
    step('after', { status: (await controller.snapshot()).status });
  },
  two: () => drive('multi_input', {}),
  'sample-task': () => drive('sample_task', {}),
  'ask-then-task': () => drive('test_tool_with_task', {}),
  failing: () => drive('failing_job', {}),
  'protocol-error': () => drive('protocol_error_job', {}),
  /** Only a task in the modern era, called plainly. */
  async 'required-plain'() {
    const { tasks } = await session();
    try {
      const execution = await call(tasks, 'failing_job', {}, 'forbid');
      step('created', { kind: execution.kind });
      printOutcome((await execution.settle()).outcome);
    } catch (error) {
      step('refused', { message: error.message });
    }
  },
  /** Another session of the same caller takes the task up. */
  async resume() {
    const first = await session();
    const execution = await call(first.tasks, 'slow_compute', { seconds: 2, label: 'h' });
    const reference = execution.serializeReference();
    await execution.detach();
    const second = await session();
    try {
      await follow(await second.tasks.resumeTask(reference));
    } catch (error) {
      step('error', { error: errorFields(error) });
    }
  }
};

/** What wants a server of its own, two processes or two callers. */
const more = {
  rounds: () => drive('rounds_task', {}),
  'roots-task': () => drive('roots_task', {}),
  'slow-plain': () => drive('slow_plain', { seconds: Number(options.seconds ?? 2) }),
  async 'expiry-waiting'() {
    silent = true;
    const { tasks } = await session();
    const execution = await call(tasks, 'confirm_delete', { filename: 'e.txt' });
    const { outcome } = await execution.settle();
    printOutcome(outcome);
  },
  async 'expiry-idle'() {
    const { tasks } = await session();
    const execution = await call(tasks, 'slow_compute', { seconds: 60, label: 'e' });
    const controller = tasks.task(execution.handle.taskId);
    const { retentionMs } = await controller.snapshot();
    await execution.detach();
    await sleep((retentionMs ?? 0) + 300);
    await expectError('get', controller.snapshot(), -32602);
    await expectError('cancel', controller.cancel(), -32602);
  },
  async 'two-callers'() {
    const one = await session({ headers: { authorization: 'Bearer one' } });
    const two = await session({ headers: { authorization: 'Bearer two' } });
    const { handle } = await call(one.tasks, 'slow_compute', { seconds: 20, label: 'mine' });
    await expectError('get', two.tasks.task(handle.taskId).snapshot(), -32602);
    await expectError('cancel', two.tasks.task(handle.taskId).cancel(), -32602);
    step('list', { found: (await two.tasks.listTasks()).tasks.some(task => task.taskId === handle.taskId) });
    step('own', { found: (await one.tasks.listTasks()).tasks.some(task => task.taskId === handle.taskId) });
    await one.tasks.cancelTask(handle.taskId);
  },
  async leave() {
    silent = true;
    const { tasks } = await session();
    const execution = await call(tasks, 'confirm_delete', { filename: 'k.txt' });
    step('task', { id: execution.handle.taskId });
    await execution.settle();
  },
  async 'take-over'() {
    const { tasks } = await session();
    await follow(await tasks.resumeTask({ endpointId: 'peer', generation: 'v1', taskId: options.task, originalOperation: 'tools/call' }));
  }
};

if (!url || !scenario) {
  console.error(`usage: ext-legacy-client.mjs URL SCENARIO [--header 'Name: value']… [--task ID] [--seconds N]\nmore: ${Object.keys(more).join(' ')}\nscenarios: ${Object.keys(scenarios).join(' ')}`);
  process.exit(2);
}

await runScenario({ ...scenarios, ...more }, scenario, undefined, async () => {
  for (const close of closers) await close();
});
