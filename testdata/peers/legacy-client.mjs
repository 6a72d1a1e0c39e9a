// A legacy (2025-11-25) client on the v1 SDK with its experimental tasks API.
// URL may be stdio: and a JSON array, a command to start and speak to, or a
// ws:// one (Node 22).
// node legacy-client.mjs URL SCENARIO [--header 'Name: value']… [--task ID] [--seconds N] [--sse]
// --sse: over HTTP+SSE, whose stream URL is meant.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { WebSocketClientTransport } from '@modelcontextprotocol/sdk/client/websocket.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
  CallToolResultSchema,
  CreateMessageRequestSchema,
  CreateTaskResultSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
  LoggingMessageNotificationSchema,
  ResourceUpdatedNotificationSchema,
  TaskStatusNotificationSchema,
  ToolListChangedNotificationSchema
} from '@modelcontextprotocol/sdk/types.js';
import { commandOf, errorFields, expectError, headersOf, parseArgs, runScenario, sleep, step, textOf, told } from './lib.mjs';
import { RELATED, attemptWith, elicited, plainScenarios, resultFields, roots, sample, terminal, user } from './user.mjs';

const { options, positional } = parseArgs(process.argv.slice(2), ['header', 'task', 'seconds']);
const [url, scenario] = positional;
const clients = [];

const questions = [];

async function connect({ headers = headersOf(options), fetch, onquestion, capabilities = { elicitation: { form: {}, url: {} }, sampling: {}, roots: { listChanged: true } } } = {}) {
  const client = new Client({ name: 'legacy-peer-client', version: '1.0.0' }, { capabilities });
  client.seen = { statuses: [], logs: [], updated: [], listChanged: 0 };
  if (capabilities.elicitation) {
    client.setRequestHandler(ElicitRequestSchema, async ({ params }, { requestId, signal }) => {
      questions.push(params.message);
      step('question', { message: params.message, mode: params.mode ?? 'form', related: params._meta?.[RELATED]?.taskId ?? null });
      if (onquestion) return onquestion({ requestId, signal });
      if (params.mode === 'url') return { action: 'accept' };
      return elicited(params);
    });
  }
  if (capabilities.sampling) {
    client.setRequestHandler(CreateMessageRequestSchema, async ({ params }) => sample(params, { related: params._meta?.[RELATED]?.taskId ?? null }));
  }
  if (capabilities.roots) client.setRequestHandler(ListRootsRequestSchema, roots);
  client.setNotificationHandler(TaskStatusNotificationSchema, ({ params }) => void client.seen.statuses.push(params.status));
  client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => void client.seen.logs.push(`${params.level}: ${params.data}`));
  client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => void client.seen.updated.push(params.uri));
  client.setNotificationHandler(ToolListChangedNotificationSchema, () => void client.seen.listChanged++);
  const command = commandOf(url);
  const Transport = options.sse === true ? SSEClientTransport : StreamableHTTPClientTransport;
  const transport = command
    ? new StdioClientTransport(command)
    : url.startsWith('ws')
      ? new WebSocketClientTransport(new URL(url))
      : new Transport(new URL(url), { requestInit: { headers }, ...(fetch && { fetch }) });
  clients.push({ client, transport });
  await client.connect(transport);
  client.sessionId = transport.sessionId;
  return client;
}

const create = (client, name, args, task = { ttl: 60_000 }, options) =>
  client.request({ method: 'tools/call', params: { name, arguments: args, task } }, CreateTaskResultSchema, options);

/** Polls until `until` holds; the distinct statuses and messages in order. */
async function poll(client, task, until = terminal, seen = { statuses: [], messages: [] }) {
  for (;;) {
    if (seen.statuses.at(-1) !== task.status) seen.statuses.push(task.status);
    if (task.statusMessage && seen.messages.at(-1) !== task.statusMessage) seen.messages.push(task.statusMessage);
    if (until(task.status)) return { task, ...seen };
    await sleep(Math.max(50, task.pollInterval ?? 1_000));
    task = await client.experimental.tasks.getTask(task.taskId);
  }
}

const printTask = (name, task) =>
  step(name, {
    status: task.status,
    hasTtl: 'ttl' in task,
    ttl: task.ttl ?? null,
    pollInterval: task.pollInterval ?? null,
    ...(task.statusMessage ? { statusMessage: task.statusMessage } : {})
  });

const printResult = (name, result, taskId) =>
  step(name, {
    ...resultFields(result),
    ...(taskId ? { related: result._meta?.[RELATED]?.taskId === taskId } : {}),
    ...('resultType' in result ? { resultType: result.resultType } : {})
  });

const attempt = attemptWith(printResult);

const result = (client, taskId) => client.experimental.tasks.getTaskResult(taskId, CallToolResultSchema);

/** Creates a task that asks, polls to input_required, opens tasks/result as the SDK does, prints the end. */
async function asking(tool, args) {
  const client = await connect();
  const { task } = await create(client, tool, args);
  printTask('created', task);
  const waiting = await poll(client, task, status => terminal(status) || status === 'input_required');
  step('polled', { statuses: waiting.statuses });
  const final = await result(client, task.taskId);
  const after = await client.experimental.tasks.getTask(task.taskId);
  step('final', { status: after.status });
  printResult('result', final, task.taskId);
}

/** Creates a task and follows it by the SDK's own stream of events; prints the distinct ones. */
async function streamed(tool, args) {
  const client = await connect();
  await client.listTools();
  const events = [];
  for await (const message of client.experimental.tasks.callToolStream({ name: tool, arguments: args }, CallToolResultSchema, { task: { ttl: 60_000 } })) {
    const event = message.type === 'taskStatus' ? `taskStatus:${message.task.status}` : message.type;
    if (events.at(-1) !== event) events.push(event);
    if (message.type === 'result') printResult('result', message.result);
    if (message.type === 'error') step('error', { error: errorFields(message.error) });
  }
  step('stream', { events });
}

/** The task tool of "everything": four stages of a second each; ambiguous, it asks before the third. */
async function research(ambiguous) {
  const client = await connect();
  const { task } = await create(client, 'simulate-research-query', { topic: 'bridges', ambiguous });
  printTask('created', task);
  const seen = await poll(client, task, status => terminal(status) || status === 'input_required');
  step('polled', { statuses: seen.statuses, messages: seen.messages });
  const final = await result(client, task.taskId);
  step('final', { status: (await client.experimental.tasks.getTask(task.taskId)).status });
  step('result', { heading: textOf(final).split('\n')[0], isError: final.isError === true, related: final._meta?.[RELATED]?.taskId === task.taskId });
}

const scenarios = {
  ...plainScenarios(connect, printResult),
  async initialize() {
    const client = await connect();
    const capabilities = client.getServerCapabilities();
    step('initialize', {
      server: client.getServerVersion()?.name ?? null,
      instructions: client.getInstructions() ?? null,
      protocolVersion: client.transport.protocolVersion ?? null,
      session: Boolean(client.sessionId),
      tasks: capabilities.tasks ?? null,
      extensions: Object.keys(capabilities.extensions ?? {}),
      capabilities: Object.keys(capabilities).sort()
    });
  },
  async task() {
    const client = await connect();
    const { task } = await create(client, 'slow_compute', { seconds: 2, label: 'x' });
    printTask('created', task);
    const end = await poll(client, task);
    step('polled', { statuses: end.statuses, messages: end.messages });
    printResult('result', await result(client, task.taskId), task.taskId);
    await told(() => client.seen.statuses);
    step('notified', { statuses: client.seen.statuses });
  },
  /** tasks/result at once: it has to block until the end. */
  async 'task-result'() {
    const client = await connect();
    const { task } = await create(client, 'slow_compute', { seconds: 1, label: 'blocked' });
    const started = Date.now();
    const final = await result(client, task.taskId);
    step('waited', { blocked: Date.now() - started > 500 });
    printResult('result', final, task.taskId);
    printResult('again', await result(client, task.taskId), task.taskId);
  },
  /** A modern server may answer a task call of no length with a plain result. */
  async 'task-immediate'() {
    const client = await connect();
    const { task } = await create(client, 'slow_compute', { seconds: 0, label: 'now' });
    printTask('created', task);
    const end = await poll(client, task);
    step('polled', { statuses: end.statuses });
    printResult('result', await result(client, task.taskId), task.taskId);
  },
  /** A tool that takes no task, called with one. */
  async 'task-forbidden'() {
    const client = await connect();
    const answer = await client.request({ method: 'tools/call', params: { name: 'greet', arguments: { name: 'Ada' }, task: {} } }, CallToolResultSchema.passthrough()).catch(error => ({ error }));
    if (answer.error) step('error', { error: errorFields(answer.error) });
    else if (answer.task) {
      const end = await poll(client, answer.task);
      step('polled', { statuses: end.statuses });
      printResult('result', await result(client, answer.task.taskId), answer.task.taskId);
    } else printResult('result', answer);
  },
  async 'task-progress'() {
    const client = await connect();
    const progress = [];
    const { task } = await create(client, 'slow_compute', { seconds: 3, label: 'p' }, { ttl: 60_000 }, { onprogress: note => progress.push(note.message ?? note.progress) });
    printResult('result', await result(client, task.taskId), task.taskId);
    step('progress', { messages: progress });
  },
  'task-stream': () => streamed('slow_compute', { seconds: 1, label: 's' }),
  'question-stream': () => streamed('confirm_delete', { filename: 's.txt' }),
  async tasklist() {
    const client = await connect();
    const { task } = await create(client, 'slow_compute', { seconds: 5, label: 'listed' });
    const { tasks } = await client.experimental.tasks.listTasks();
    step('tasklist', { count: tasks.length, found: tasks.some(other => other.taskId === task.taskId), status: tasks.find(other => other.taskId === task.taskId)?.status ?? null });
    await client.experimental.tasks.cancelTask(task.taskId);
  },
  async 'tasklist-pages'() {
    const client = await connect();
    const made = new Set();
    for (let i = 0; i < 25; i++) made.add((await create(client, 'slow_compute', { seconds: 20, label: String(i) })).task.taskId);
    const seen = new Set();
    let cursor;
    let pages = 0;
    do {
      const page = await client.experimental.tasks.listTasks(cursor);
      for (const task of page.tasks) seen.add(task.taskId);
      cursor = page.nextCursor;
      pages++;
    } while (cursor !== undefined && pages < 50);
    step('pages', { pages, made: made.size, found: [...made].filter(id => seen.has(id)).length });
    await expectError('bad-cursor', client.experimental.tasks.listTasks('no such cursor'), -32602);
    await Promise.all([...made].map(id => client.experimental.tasks.cancelTask(id)));
  },
  async cancel() {
    const client = await connect();
    const { task } = await create(client, 'slow_compute', { seconds: 60, label: 'c' });
    const cancelled = await client.experimental.tasks.cancelTask(task.taskId);
    step('cancelled', { status: cancelled.status, sameTask: cancelled.taskId === task.taskId, hasTtl: 'ttl' in cancelled });
    const after = await client.experimental.tasks.getTask(task.taskId);
    step('after', { status: after.status });
    // An error from most servers, an empty result from mcp-go.
    await attempt('result', result(client, task.taskId));
    await expectError('again', client.experimental.tasks.cancelTask(task.taskId), -32602);
  },
  /** A tasks/result that waits when the task is cancelled has to end. */
  async 'cancel-waiting'() {
    const client = await connect();
    const { task } = await create(client, 'slow_compute', { seconds: 60, label: 'w' });
    const waiting = result(client, task.taskId);
    waiting.catch(() => {}); // looked at below
    await sleep(300);
    step('cancelled', { status: (await client.experimental.tasks.cancelTask(task.taskId)).status });
    await attempt('waiting', waiting);
  },
  async 'cancel-finished'() {
    const client = await connect();
    const { task } = await create(client, 'slow_compute', { seconds: 0, label: 'f' });
    const end = await poll(client, task);
    step('polled', { statuses: end.statuses });
    await expectError('cancel', client.experimental.tasks.cancelTask(task.taskId), -32602);
    printResult('result', await result(client, task.taskId), task.taskId);
  },
  async 'unknown-task'() {
    const client = await connect();
    await expectError('get', client.experimental.tasks.getTask('no-such-task'), -32602);
    await expectError('result', result(client, 'no-such-task'), -32602);
    await expectError('cancel', client.experimental.tasks.cancelTask('no-such-task'), -32602);
  },
  /** A task from another session of the same caller: the v1 SDK hides it. */
  async 'other-session'() {
    const first = await connect();
    const second = await connect();
    const { task } = await create(first, 'slow_compute', { seconds: 5, label: 'o' });
    const found = await second.experimental.tasks.getTask(task.taskId).then(other => ({ status: other.status }), error => ({ error: errorFields(error) }));
    step('other', found);
    const { tasks } = await second.experimental.tasks.listTasks();
    step('list', { found: tasks.some(other => other.taskId === task.taskId) });
    await first.experimental.tasks.cancelTask(task.taskId);
  },
  question: () => asking('confirm_delete', { filename: 'a.txt' }),
  'question-decline': () => ((user.answer = 'decline'), asking('confirm_delete', { filename: 'a.txt' })),
  'question-cancel': () => ((user.answer = 'cancel'), asking('confirm_delete', { filename: 'a.txt' })),
  two: () => asking('multi_input', {}),
  'sample-task': () => asking('sample_task', {}),
  /** Cancels while the question is open. */
  async 'question-abandon'() {
    const client = await connect();
    const { task } = await create(client, 'confirm_delete', { filename: 'b.txt' });
    const waiting = await poll(client, task, status => status === 'input_required' || terminal(status));
    step('polled', { statuses: waiting.statuses });
    step('cancelled', { status: (await client.experimental.tasks.cancelTask(task.taskId)).status });
    step('after', { status: (await client.experimental.tasks.getTask(task.taskId)).status, questions: questions.length });
  },
  /** A client that declared no elicitation. */
  async 'question-undeclared'() {
    const client = await connect({ capabilities: {} });
    try {
      const { task } = await create(client, 'confirm_delete', { filename: 'u.txt' });
      const end = await Promise.race([poll(client, task), sleep(5_000)]);
      if (!end) return step('stuck', { status: (await client.experimental.tasks.getTask(task.taskId)).status });
      step('polled', { statuses: end.statuses, messages: end.messages });
      printResult('result', await result(client, task.taskId), task.taskId);
    } catch (error) {
      step('error', { error: errorFields(error) });
    }
  },
  /** Elicits on the call itself, then makes the task. */
  async 'ask-then-task'() {
    const client = await connect();
    const { task } = await create(client, 'test_tool_with_task', {});
    printTask('created', task);
    const end = await poll(client, task, status => terminal(status) || status === 'input_required');
    step('polled', { statuses: end.statuses });
    printResult('result', await result(client, task.taskId), task.taskId);
    step('final', { status: (await client.experimental.tasks.getTask(task.taskId)).status });
  },
  async failing() {
    const client = await connect();
    const { task } = await create(client, 'failing_job', {});
    const end = await poll(client, task);
    step('polled', { statuses: end.statuses, messages: end.messages });
    printResult('result', await result(client, task.taskId), task.taskId);
  },
  async 'failing-stream'() {
    const client = await connect();
    await client.listTools();
    for await (const message of client.experimental.tasks.callToolStream({ name: 'failing_job', arguments: {} }, CallToolResultSchema, { task: {} })) {
      if (message.type === 'result') printResult('result', message.result);
      if (message.type === 'error') step('error', { error: errorFields(message.error) });
    }
  },
  async 'protocol-error'() {
    const client = await connect();
    const { task } = await create(client, 'protocol_error_job', {});
    const end = await poll(client, task);
    step('polled', { statuses: end.statuses, messages: end.messages });
    await expectError('result', result(client, task.taskId));
    await expectError('again', result(client, task.taskId));
  },
  /** Required as a task, called without one. */
  async 'required-plain'() {
    const client = await connect();
    await attempt('result', client.request({ method: 'tools/call', params: { name: 'failing_job', arguments: {} } }, CallToolResultSchema));
  },
  /** The same with a question inside. */
  async 'question-plain'() {
    const client = await connect();
    await attempt('result', client.request({ method: 'tools/call', params: { name: 'confirm_delete', arguments: { filename: 'p.txt' } } }, CallToolResultSchema));
  },
  /** Optional as a task, called without one. */
  async 'optional-plain'() {
    const client = await connect();
    printResult('result', await client.request({ method: 'tools/call', params: { name: 'slow_compute', arguments: { seconds: 1, label: 'plain' } } }, CallToolResultSchema));
  },
  async progress() {
    const client = await connect();
    const seen = [];
    const final = await client.callTool({ name: 'progress', arguments: { steps: 4 } }, CallToolResultSchema, { onprogress: note => seen.push(note.progress) });
    step('progress', { seen });
    printResult('result', final);
  },
  /** Cancels a plain call; the client gives up at once, the server has to go on serving. */
  async 'cancel-call'() {
    const client = await connect();
    const abort = new AbortController();
    const call = client.callTool({ name: 'progress', arguments: { steps: 200 } }, CallToolResultSchema, { signal: abort.signal });
    setTimeout(() => abort.abort('enough'), 300);
    await expectError('call', call);
    await client.ping();
    step('alive');
  },
  async log() {
    const client = await connect();
    await client.setLoggingLevel('info');
    printResult('result', await client.callTool({ name: 'log', arguments: {} }));
    await sleep(100);
    step('log', { lines: client.seen.logs });
  },
  async ping() {
    const client = await connect();
    await client.ping();
    await client.setLoggingLevel('warning');
    step('ping');
  },
  async resources() {
    const client = await connect();
    const { resources } = await client.listResources();
    step('list', { uris: resources.map(resource => resource.uri) });
    const { resourceTemplates } = await client.listResourceTemplates();
    step('templates', { templates: resourceTemplates.map(template => template.uriTemplate) });
    const read = await client.readResource({ uri: 'peer://note' });
    step('read', { text: read.contents[0].text });
    if (resourceTemplates.length > 0) {
      const item = await client.readResource({ uri: 'peer://item/7' });
      step('item', { text: item.contents[0].text });
    }
    await expectError('missing', client.readResource({ uri: 'peer://missing' }));
  },
  async subscribe() {
    const client = await connect();
    await client.subscribeResource({ uri: 'peer://note' });
    step('subscribed');
    await sleep(300); // let the GET stream or the listen stream open
    await client.callTool({ name: 'touch', arguments: {} });
    for (let i = 0; i < 40 && (client.seen.updated.length === 0 || client.seen.listChanged === 0); i++) await sleep(50);
    step('updated', { uris: client.seen.updated, listChanged: client.seen.listChanged > 0 });
    await client.unsubscribeResource({ uri: 'peer://note' });
    step('unsubscribed');
  },
  /** The reference server "everything": its plain tools and its one task tool. */
  async everything() {
    const client = await connect();
    printResult('echo', await client.callTool({ name: 'echo', arguments: { message: 'hello' } }));
    printResult('sum', await client.callTool({ name: 'get-sum', arguments: { a: 2, b: 3 } }));
    printResult('structured', await client.callTool({ name: 'get-structured-content', arguments: { location: 'Chicago' } }));
    printResult('image', await client.callTool({ name: 'get-tiny-image', arguments: {} }));
  },
  'everything-task': () => research(false),
  'everything-question': () => research(true),
  async 'two-sessions'() {
    const [first, second] = [await connect(), await connect()];
    const [a, b] = await Promise.all([
      first.callTool({ name: 'echo', arguments: { text: 'first' } }),
      second.callTool({ name: 'echo', arguments: { text: 'second' } })
    ]);
    step('sessions', { differ: first.sessionId !== second.sessionId, first: textOf(a), second: textOf(b) });
  }
};

const never = new Promise(() => {});
const isQuestion = chunk => chunk.includes('elicitation/create');

/** A fetch that cuts the first stream a question comes on, once the question is through. */
function cutting(cut) {
  let done = false;
  return async (input, init) => {
    const response = await fetch(input, init);
    if (!response.body || !response.headers.get('content-type')?.startsWith('text/event-stream')) return response;
    const decoder = new TextDecoder();
    const reader = response.body.getReader();
    const body = new ReadableStream({
      async pull(controller) {
        const { value, done: end } = await reader.read();
        if (end) return controller.close();
        const asks = isQuestion(decoder.decode(value));
        controller.enqueue(value);
        if (asks && !done) {
          done = true;
          await sleep(50);
          await reader.cancel('cut');
          controller.error(new Error('cut'));
          cut();
        }
      }
    });
    return new Response(body, { status: response.status, headers: response.headers });
  };
}

/**
 * The stream that brought a question is lost; a second tasks/result brings it
 * again. `late` answers first: the one of the new request or of the old.
 */
async function lostStream(late) {
  let cut;
  const lost = new Promise(resolve => (cut = resolve));
  const asked = [];
  const client = await connect({ fetch: cutting(() => cut()), onquestion: request => new Promise(answer => asked.push({ answer, ...request })) });
  const { task } = await create(client, 'confirm_delete', { filename: 'cut.txt' });
  await poll(client, task, status => terminal(status) || status === 'input_required');
  const first = result(client, task.taskId);
  first.catch(() => {});
  await lost;
  step('lost');
  const second = result(client, task.taskId);
  for (let i = 0; asked.length < 2 && i < 100; i++) await sleep(50);
  step('asked', { times: asked.length, again: asked[0].requestId !== asked[1]?.requestId });
  const yes = { action: 'accept', content: { confirm: true } };
  const no = { action: 'decline' };
  const [winner, loser] = late ? [asked[1], asked[0]] : asked;
  winner.answer(yes);
  printResult('result', await second, task.taskId);
  for (let i = 0; !loser?.signal.aborted && i < 20; i++) await sleep(50);
  step('loser', { withdrawn: loser?.signal.aborted ?? null });
  loser?.answer(no);
  await sleep(100);
  printResult('again', await result(client, task.taskId), task.taskId);
}

/**
 * What wants a server of its own (modern-server.mjs --more, --ttl), two
 * processes or two callers, and so is in no table of scenarios.
 */
const more = {
  rounds: () => asking('rounds_task', {}),
  'roots-task': () => asking('roots_task', {}),
  'expiry-waiting': async () => {
    const client = await connect({ onquestion: () => never });
    const { task } = await create(client, 'confirm_delete', { filename: 'e.txt' });
    await poll(client, task, status => terminal(status) || status === 'input_required');
    const started = Date.now();
    await expectError('result', result(client, task.taskId), -32602);
    step('waited', { late: Date.now() - started > (task.ttl ?? 0) + 10_000 });
    await expectError('get', client.experimental.tasks.getTask(task.taskId), -32602);
  },
  'expiry-idle': async () => {
    const client = await connect();
    const { task } = await create(client, 'slow_compute', { seconds: 60, label: 'e' });
    await sleep((task.ttl ?? 0) + 300);
    await expectError('get', client.experimental.tasks.getTask(task.taskId), -32602);
    await expectError('result', result(client, task.taskId), -32602);
    await expectError('cancel', client.experimental.tasks.cancelTask(task.taskId), -32602);
    const { tasks } = await client.experimental.tasks.listTasks();
    step('list', { found: tasks.some(other => other.taskId === task.taskId) });
  },
  /** A server may keep a result beyond its ttl: what counts is one story. */
  'expiry-finished': async () => {
    const client = await connect();
    const { task } = await create(client, 'slow_compute', { seconds: 1, label: 'e' });
    printResult('result', await result(client, task.taskId), task.taskId);
    await sleep((task.ttl ?? 0) + 300);
    const told = await client.experimental.tasks.getTask(task.taskId).then(() => true, () => false);
    const fetched = await result(client, task.taskId).then(() => true, () => false);
    const { tasks } = await client.experimental.tasks.listTasks();
    step('story', { told, one: told === fetched && fetched === tasks.some(other => other.taskId === task.taskId) });
  },
  'two-callers': async () => {
    const [one, two, oneAgain] = [
      await connect({ headers: { authorization: 'Bearer one' } }),
      await connect({ headers: { authorization: 'Bearer two' } }),
      await connect({ headers: { authorization: 'Bearer one' } })
    ];
    const { task } = await create(one, 'slow_compute', { seconds: 20, label: 'mine' });
    await expectError('get', two.experimental.tasks.getTask(task.taskId), -32602);
    await expectError('result', result(two, task.taskId), -32602);
    await expectError('cancel', two.experimental.tasks.cancelTask(task.taskId), -32602);
    step('list', { found: (await two.experimental.tasks.listTasks()).tasks.some(other => other.taskId === task.taskId) });
    step('own', {
      status: (await oneAgain.experimental.tasks.getTask(task.taskId)).status,
      found: (await oneAgain.experimental.tasks.listTasks()).tasks.some(other => other.taskId === task.taskId)
    });
    await one.experimental.tasks.cancelTask(task.taskId);
  },
  'lost-stream': () => lostStream(true),
  'lost-stream-old-answer': () => lostStream(false),
  /** A tool that makes no task and takes its time, called as one. */
  'slow-plain': async () => {
    const client = await connect();
    const started = Date.now();
    const { task } = await create(client, 'slow_plain', { seconds: Number(options.seconds ?? 2) });
    step('created', { status: task.status, early: Date.now() - started < 1_500 });
    const { tasks } = await client.experimental.tasks.listTasks();
    step('list', { status: tasks.find(other => other.taskId === task.taskId)?.status ?? null });
    const end = await poll(client, task);
    step('polled', { statuses: end.statuses });
    printResult('result', await result(client, task.taskId), task.taskId);
  },
  'slow-plain-cancel': async () => {
    const client = await connect();
    const { task } = await create(client, 'slow_plain', { seconds: 60 });
    step('cancelled', { status: (await client.experimental.tasks.cancelTask(task.taskId)).status });
    await attempt('result', result(client, task.taskId));
  },
  /** Waits in front of a question until somebody kills it. */
  leave: async () => {
    const client = await connect({ onquestion: () => never });
    const { task } = await create(client, 'confirm_delete', { filename: 'k.txt' });
    step('task', { id: task.taskId });
    await poll(client, task, status => terminal(status) || status === 'input_required');
    await result(client, task.taskId);
  },
  'take-over': async () => {
    const client = await connect();
    step('taken', { status: (await client.experimental.tasks.getTask(options.task)).status });
    step('list', { found: (await client.experimental.tasks.listTasks()).tasks.some(other => other.taskId === options.task) });
    printResult('result', await result(client, options.task), options.task);
  },
  /** The same, the questions on the GET stream: nobody waits for the result. */
  'question-polled': async () => {
    const client = await connect();
    const { task } = await create(client, 'confirm_delete', { filename: 'g.txt' });
    const end = await poll(client, task);
    step('polled', { statuses: end.statuses });
    printResult('result', await result(client, task.taskId), task.taskId);
  },
  'sample-refused': async () => {
    const client = await connect();
    client.setRequestHandler(CreateMessageRequestSchema, async () => {
      throw Object.assign(new Error('not this time'), { code: -1 });
    });
    const { task } = await create(client, 'sample_task', {});
    await poll(client, task, status => terminal(status) || status === 'input_required');
    await attempt('result', result(client, task.taskId));
    step('final', { status: (await client.experimental.tasks.getTask(task.taskId)).status });
  }
};
if (!url || !scenario) {
  console.error(`usage: legacy-client.mjs URL SCENARIO [--header 'Name: value']… [--task ID] [--seconds N]\nmore: ${Object.keys(more).join(' ')}\nscenarios: ${Object.keys(scenarios).join(' ')}`);
  process.exit(2);
}

await runScenario({ ...scenarios, ...more }, scenario, undefined, async () => {
  for (const { client, transport } of clients) {
    await transport.terminateSession().catch(() => {});
    await client.close();
  }
});
