// A modern (2026-07-28) client: the v2 SDK pinned to the revision, with
// ext-tasks for tasks. ext-tasks wants the host to send task traffic itself
// (`rawDispatch`); that is `raw` below, also used where the SDK hides what a
// test wants to see. node modern-client.mjs URL SCENARIO [--header 'Name: value']…
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { createTaskSessionFromClient, createApplicationInputHandler } from '@modelcontextprotocol/ext-tasks/client';
import { commandOf, errorFields, expectError, headersOf, parseArgs, runScenario, sleep, step, textOf } from './lib.mjs';
import { RELATED, attemptWith, elicited, plainScenarios, resultFields, roots, sample, terminal, user } from './user.mjs';

const VERSION = '2026-07-28';
const EXTENSION = 'io.modelcontextprotocol/tasks';
const META = 'io.modelcontextprotocol/';
const clientInfo = { name: 'modern-peer-client', version: '1.0.0' };

const { options, positional } = parseArgs(process.argv.slice(2));
const [url, scenario] = positional;
const headers = headersOf(options);

const inputs = { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} };
const withTasks = { ...inputs, extensions: { [EXTENSION]: {} } };
const closers = [];

// ---- answers -------------------------------------------------------------

function elicit(params, extra = {}) {
  step('question', { message: params.message, mode: params.mode ?? 'form', ...extra });
  if (params.mode === 'url') return { action: 'accept' };
  return elicited(params);
}

/** The answer to one entry of inputRequests. */
const respond = request =>
  request.method === 'elicitation/create' ? elicit(request.params) : request.method === 'sampling/createMessage' ? sample(request.params) : roots();

// ---- connections ---------------------------------------------------------

/** URL may be stdio: and a JSON array, a command to start and speak to. */
const transport = () =>
  commandOf(url) ? new StdioClientTransport(commandOf(url)) : new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } });

async function connect({ capabilities = withTasks } = {}) {
  const client = new Client(clientInfo, { capabilities, versionNegotiation: { mode: { pin: VERSION } } });
  client.seen = { logs: [], updated: [], listChanged: 0 };
  if (capabilities.elicitation) client.setRequestHandler('elicitation/create', ({ params }) => elicit(params));
  if (capabilities.sampling) client.setRequestHandler('sampling/createMessage', ({ params }) => sample(params));
  if (capabilities.roots) client.setRequestHandler('roots/list', roots);
  client.setNotificationHandler('notifications/message', ({ params }) => void client.seen.logs.push(`${params.level}: ${params.data}`));
  client.setNotificationHandler('notifications/resources/updated', ({ params }) => void client.seen.updated.push(params.uri));
  client.setNotificationHandler('notifications/tools/list_changed', () => void client.seen.listChanged++);
  await client.connect(transport());
  closers.push(() => client.close());
  return client;
}

const NAME_OF = { 'tools/call': 'name', 'prompts/get': 'name', 'resources/read': 'uri', 'tasks/get': 'taskId', 'tasks/update': 'taskId', 'tasks/cancel': 'taskId' };
let lastId = 0;

/** Posts one request; gives {status, message} and hands over every notification before it. */
async function post(method, params = {}, { capabilities = withTasks, meta = {}, headers: more = {}, signal, onnotification = () => {}, framed } = {}) {
  const id = `raw-${++lastId}`;
  const body = framed ?? {
    ...params,
    _meta: { ...params._meta, [`${META}protocolVersion`]: VERSION, [`${META}clientInfo`]: clientInfo, [`${META}clientCapabilities`]: capabilities, ...meta }
  };
  const name = NAME_OF[method] && body[NAME_OF[method]];
  // ext-tasks hands over an Mcp-Name of its own; set, so that there is one.
  const sent = new Headers({ 'content-type': 'application/json', accept: 'application/json, text/event-stream', 'mcp-protocol-version': VERSION, 'mcp-method': method });
  if (typeof name === 'string') sent.set('mcp-name', headerValue(name));
  for (const [header, value] of [...Object.entries(headers), ...Object.entries(more)]) sent.set(header, value);
  const response = await fetch(url, {
    method: 'POST',
    headers: sent,
    body: JSON.stringify({ jsonrpc: '2.0', id, method, params: body }),
    signal
  });
  for await (const message of messages(response)) {
    if ('method' in message) onnotification(message);
    else return { status: response.status, type: response.headers.get('content-type'), message };
  }
  throw new Error(`${method}: HTTP ${response.status} without an answer`);
}

/** Values outside plain ASCII travel in the sentinel form. */
const headerValue = value => (/^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/.test(value) ? value : `=?base64?${Buffer.from(value).toString('base64')}?=`);

async function* messages(response) {
  if (!response.headers.get('content-type')?.startsWith('text/event-stream')) {
    const body = await response.text();
    let message;
    try {
      message = JSON.parse(body);
    } catch {
      throw new Error(`HTTP ${response.status}: ${body.slice(0, 200)}`);
    }
    yield message;
    return;
  }
  let buffer = '';
  for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
    buffer += chunk.replaceAll('\r\n', '\n');
    for (let end; (end = buffer.indexOf('\n\n')) >= 0; buffer = buffer.slice(end + 2)) {
      const data = buffer
        .slice(0, end)
        .split('\n')
        .filter(line => line.startsWith('data:'))
        .map(line => line.slice(5).replace(/^ /, ''))
        .join('\n');
      if (data) yield JSON.parse(data);
    }
  }
}

/** A request as the result or a thrown error with code and data. */
async function raw(method, params, opts) {
  const { status, message } = await post(method, params, opts);
  if (message.error) throw Object.assign(new Error(message.error.message), { code: message.error.code, data: message.error.data, status });
  return message.result;
}

async function session(opts) {
  const client = await connect(opts);
  const tasks = createTaskSessionFromClient(client, {
    endpointId: 'peer',
    rawDispatch: async (request, { signal, context } = {}) => {
      const { message } = await post(request.method, undefined, { framed: request.params, signal, headers: context?.headers });
      return message.error ? { kind: 'error', error: message.error } : { kind: 'result', result: message.result };
    },
    v2RequestFraming: { protocolVersion: VERSION, clientInfo, clientCapabilities: withTasks },
    onInputRequest: createApplicationInputHandler({
      elicitation: (request, { scope, inputId }) => elicit(request.params, { scope, key: inputId ?? null }),
      sampling: (request, { scope, inputId }) => sample(request.params, { scope, key: inputId ?? null }),
      roots
    }),
    onError: error => step('ext-tasks-error', { message: error.message })
  });
  closers.unshift(() => tasks.close());
  return { client, tasks };
}

// ---- output --------------------------------------------------------------

const printResult = (name, result) =>
  step(name, {
    ...resultFields(result),
    ...(result._meta?.[RELATED] ? { related: true } : {})
  });

const attempt = attemptWith(printResult);

/** Runs a tool through ext-tasks to its end. */
async function drive(tool, args) {
  const { tasks } = await session();
  const execution = await tasks.callTool(tool, args);
  step('created', { kind: execution.kind });
  const statuses = [];
  const messages = [];
  const { outcome } = await execution.settle({
    onEvent: event => {
      if (event.type !== 'task') return;
      if (statuses.at(-1) !== event.task.status) statuses.push(event.task.status);
      if (event.task.statusMessage && messages.at(-1) !== event.task.statusMessage) messages.push(event.task.statusMessage);
    }
  });
  step('polled', { statuses, messages });
  step('outcome', { status: outcome.status });
  if (outcome.status === 'completed') printResult('result', outcome.result);
  if (outcome.status === 'failed') step('error', { error: errorFields(outcome.error) });
  return { tasks, execution };
}

const create = async (name, args, opts) => {
  const created = await raw('tools/call', { name, arguments: args }, opts);
  if (created.resultType !== 'task') throw new Error(`${name}: wanted a task, got ${JSON.stringify(created)}`);
  return created;
};

const get = (taskId, opts) => raw('tasks/get', { taskId }, opts);

async function poll(taskId, until = task => terminal(task.status), opts) {
  const statuses = [];
  for (;;) {
    const task = await get(taskId, opts);
    if (statuses.at(-1) !== task.status) statuses.push(task.status);
    if (until(task)) return { task, statuses };
    await sleep(Math.max(50, task.pollIntervalMs ?? 1_000));
  }
}

// ---- scenarios -----------------------------------------------------------

const scenarios = {
  ...plainScenarios(connect, printResult),
  async discover() {
    const client = await connect();
    const capabilities = client.getServerCapabilities();
    step('discover', {
      server: client.getServerVersion()?.name ?? null,
      instructions: client.getInstructions() ?? null,
      era: client.getProtocolEra(),
      protocolVersion: client.getNegotiatedProtocolVersion(),
      tasks: capabilities.extensions?.[EXTENSION] ?? null,
      capabilities: Object.keys(capabilities).sort()
    });
    const result = await raw('server/discover');
    step('wire', { resultType: result.resultType, ttlMs: result.ttlMs, cacheScope: result.cacheScope, versions: result.supportedVersions });
  },
  async task() {
    await drive('slow_compute', { seconds: 2, label: 'x' });
  },
  async 'task-immediate'() {
    await drive('slow_compute', { seconds: 0, label: 'now' });
  },
  /** The wire shapes of a task's life, without ext-tasks. */
  async 'task-wire'() {
    // What a server says on the way hangs on the machine's speed.
    const keys = task => Object.keys(task).filter(key => key !== 'statusMessage').sort();
    const created = await create('slow_compute', { seconds: 4, label: 'w' });
    step('created', { status: created.status, keys: keys(created), ttlMs: created.ttlMs, pollIntervalMs: created.pollIntervalMs ?? null });
    const first = await get(created.taskId);
    step('get', { status: first.status, resultType: first.resultType, keys: keys(first) });
    const { task } = await poll(created.taskId);
    step('final', { status: task.status, keys: keys(task), resultKeys: Object.keys(task.result ?? {}).sort() });
    printResult('result', task.result);
  },
  async cancel() {
    const { tasks } = await session();
    const execution = await tasks.callTool('slow_compute', { seconds: 60, label: 'c' });
    await execution.cancel();
    const { outcome } = await execution.settle().catch(error => ({ outcome: { status: error.message } }));
    step('cancelled', { outcome: outcome.status });
    const task = await get(execution.handle.taskId);
    step('after', { status: task.status });
  },
  async 'cancel-finished'() {
    const created = await create('failing_job', {});
    const { task } = await poll(created.taskId);
    step('polled', { status: task.status });
    const ack = await raw('tasks/cancel', { taskId: created.taskId });
    step('cancel', { keys: Object.keys(ack).filter(key => key !== '_meta').sort(), resultType: ack.resultType });
    step('after', { status: (await get(created.taskId)).status });
  },
  async 'unknown-task'() {
    await expectError('get', get('no-such-task'), -32602);
    await expectError('update', raw('tasks/update', { taskId: 'no-such-task', inputResponses: {} }), -32602);
    await expectError('cancel', raw('tasks/cancel', { taskId: 'no-such-task' }), -32602);
  },
  /** No session, no tie: another connection with the same credentials finds the task. */
  async 'other-client'() {
    const first = await session();
    const execution = await first.tasks.callTool('slow_compute', { seconds: 20, label: 'o' });
    const second = await session();
    const controller = second.tasks.task(execution.handle.taskId);
    step('other', { status: (await controller.snapshot()).status });
    await controller.cancel();
    step('after', { status: (await get(execution.handle.taskId)).status });
  },
  async 'other-caller'() {
    const created = await create('slow_compute', { seconds: 5, label: 'o' }, { headers: { authorization: 'Bearer one' } });
    await expectError('get', get(created.taskId, { headers: { authorization: 'Bearer two' } }), -32602);
    await expectError('cancel', raw('tasks/cancel', { taskId: created.taskId }, { headers: { authorization: 'Bearer two' } }), -32602);
    step('own', { status: (await get(created.taskId, { headers: { authorization: 'Bearer one' } })).status });
  },
  question: () => drive('confirm_delete', { filename: 'a.txt' }),
  'question-decline': () => ((user.answer = 'decline'), drive('confirm_delete', { filename: 'a.txt' })),
  'question-cancel': () => ((user.answer = 'cancel'), drive('confirm_delete', { filename: 'a.txt' })),
  two: () => drive('multi_input', {}),
  'sample-task': () => drive('sample_task', {}),
  'ask-then-task': () => drive('test_tool_with_task', {}),
  /** One answer at a time; unknown and repeated keys are ignored. */
  async 'two-partial'() {
    const created = await create('multi_input', {});
    const both = await poll(created.taskId, task => terminal(task.status) || Object.keys(task.inputRequests ?? {}).length === 2);
    const [first, second] = Object.keys(both.task.inputRequests);
    step('asked', { status: both.task.status, methods: Object.values(both.task.inputRequests).map(request => request.method), messages: Object.values(both.task.inputRequests).map(request => request.params.message) });
    const update = responses => raw('tasks/update', { taskId: created.taskId, inputResponses: responses });
    const ack = await update({ [first]: respond(both.task.inputRequests[first]), nonsense: { action: 'accept', content: {} } });
    const after = await get(created.taskId);
    step('one', { ack: Object.keys(ack).filter(key => key !== '_meta'), status: after.status, left: Object.keys(after.inputRequests ?? {}).length, right: Object.keys(after.inputRequests ?? {})[0] === second });
    await update({ [first]: respond(both.task.inputRequests[first]) });
    step('repeat', { status: (await get(created.taskId)).status });
    await update({ [second]: respond(both.task.inputRequests[second]) });
    const { task } = await poll(created.taskId);
    printResult('result', task.result);
  },
  async 'question-abandon'() {
    const created = await create('confirm_delete', { filename: 'b.txt' });
    const waiting = await poll(created.taskId, task => terminal(task.status) || task.status === 'input_required');
    step('polled', { status: waiting.task.status });
    await raw('tasks/cancel', { taskId: created.taskId });
    const { task } = await poll(created.taskId);
    step('after', { status: task.status, inputRequests: 'inputRequests' in task });
  },
  failing: () => drive('failing_job', {}),
  'protocol-error': () => drive('protocol_error_job', {}),
  /** The extension is not declared. */
  async 'optional-plain'() {
    const client = await connect({ capabilities: inputs });
    printResult('result', await client.callTool({ name: 'slow_compute', arguments: { seconds: 1, label: 'plain' } }));
  },
  async 'required-plain'() {
    const client = await connect({ capabilities: inputs });
    await attempt('result', client.callTool({ name: 'failing_job', arguments: {} }));
  },
  async 'question-plain'() {
    const client = await connect({ capabilities: inputs });
    await attempt('result', client.callTool({ name: 'confirm_delete', arguments: { filename: 'p.txt' } }));
  },
  /** tasks/* without the extension: -32021, also for a task that exists. */
  async undeclared() {
    const created = await create('slow_compute', { seconds: 5, label: 'u' });
    const off = { capabilities: inputs };
    await expectError('get', get(created.taskId, off), -32021);
    await expectError('update', raw('tasks/update', { taskId: created.taskId, inputResponses: {} }, off), -32021);
    await expectError('cancel', raw('tasks/cancel', { taskId: created.taskId }, off), -32021);
    await expectError('unknown', get('no-such-task', off), -32021);
    await expectError('listen', raw('subscriptions/listen', { notifications: { taskIds: [created.taskId] } }, off), -32021);
    await raw('tasks/cancel', { taskId: created.taskId });
  },
  /** The legacy methods are gone; HTTP 404 carries the -32601. */
  async removed() {
    for (const method of ['tasks/result', 'tasks/list', 'initialize', 'ping', 'logging/setLevel', 'resources/subscribe']) {
      const { status, message } = await post(method, method === 'tasks/result' ? { taskId: 'no-such-task' } : {});
      step(method, { status, code: message.error?.code ?? null });
    }
  },
  async 'header-mismatch'() {
    const cases = {
      method: { 'mcp-method': 'tools/list' },
      name: { 'mcp-name': 'other' },
      version: { 'mcp-protocol-version': '2025-11-25' }
    };
    for (const [name, wrong] of Object.entries(cases)) {
      const { status, message } = await post('tools/call', { name: 'greet', arguments: { name: 'Ada' } }, { headers: wrong });
      step(name, { status, code: message.error?.code ?? null });
    }
  },
  /** The rounds by hand, then a state that was tampered with, used twice, and of other arguments. */
  async 'ask-wire'() {
    const call = more => raw('tools/call', { name: 'ask_name', arguments: {}, ...more });
    const first = await call({});
    const [key] = Object.keys(first.inputRequests ?? {});
    step('asked', { resultType: first.resultType, method: first.inputRequests?.[key]?.method, state: typeof first.requestState });
    const inputResponses = { [key]: respond(first.inputRequests[key]) };
    await expectError('tampered', call({ inputResponses, requestState: `${first.requestState.slice(0, -4)}AAAA` }), -32602);
    printResult('result', await call({ inputResponses, requestState: first.requestState }));
    const again = await call({ inputResponses, requestState: first.requestState }).then(value => ({ text: textOf(value) }), error => ({ error: errorFields(error) }));
    step('again', again);
  },
  async progress() {
    const client = await connect();
    const seen = [];
    const final = await client.callTool({ name: 'progress', arguments: { steps: 4 } }, { onprogress: note => seen.push(note.progress) });
    step('progress', { seen });
    printResult('result', final);
  },
  async 'cancel-call'() {
    const client = await connect();
    const abort = new AbortController();
    const call = client.callTool({ name: 'progress', arguments: { steps: 200 } }, { signal: abort.signal, onprogress: () => {} });
    setTimeout(() => abort.abort('enough'), 300);
    await expectError('call', call);
    await client.listTools();
    step('alive');
  },
  /** No setLevel here: the level rides on the request. */
  async log() {
    const client = await connect();
    const result = await client.callTool({ name: 'log', arguments: {}, _meta: { [`${META}logLevel`]: 'info' } });
    await sleep(100);
    printResult('result', result);
    step('log', { lines: client.seen.logs });
    client.seen.logs.length = 0;
    await client.callTool({ name: 'log', arguments: {} });
    await sleep(100);
    step('quiet', { lines: client.seen.logs });
  },
  async listen() {
    const client = await connect();
    const subscription = await client.listen({ toolsListChanged: true, resourceSubscriptions: ['peer://note'] });
    step('listening', { honoured: subscription.honoredFilter ?? null });
    await client.callTool({ name: 'touch', arguments: {} });
    for (let i = 0; i < 40 && (client.seen.updated.length === 0 || client.seen.listChanged === 0); i++) await sleep(50);
    step('updated', { uris: client.seen.updated, listChanged: client.seen.listChanged > 0 });
    await subscription.close();
    step('closed');
  },
  /** notifications/tasks: the v2 client has no word for taskIds, so by hand. */
  async 'listen-tasks'() {
    const created = await create('confirm_delete', { filename: 'l.txt' });
    const abort = new AbortController();
    const statuses = [];
    let last;
    let acknowledged;
    let answered = false;
    const listening = post(
      'subscriptions/listen',
      { notifications: { taskIds: [created.taskId, 'no-such-task'] } },
      {
        signal: abort.signal,
        onnotification: ({ method, params }) => {
          if (method === 'notifications/subscriptions/acknowledged') acknowledged = params.notifications;
          if (method !== 'notifications/tasks') return;
          if (statuses.at(-1) !== params.status) statuses.push(params.status);
          last = params;
          if (params.status === 'input_required' && !answered) {
            answered = true;
            const inputResponses = Object.fromEntries(Object.entries(params.inputRequests).map(([key, request]) => [key, respond(request)]));
            void raw('tasks/update', { taskId: created.taskId, inputResponses });
          }
          if (terminal(params.status)) abort.abort();
        }
      }
    ).catch(error => error);
    // What changed before the acknowledgement is not told again: one tasks/get closes the gap.
    while (acknowledged === undefined) await sleep(20);
    step('acknowledged', { own: acknowledged.taskIds?.length === 1 && acknowledged.taskIds[0] === created.taskId });
    const now = await get(created.taskId);
    if (now.status === 'input_required' && !answered) {
      answered = true;
      await raw('tasks/update', { taskId: created.taskId, inputResponses: Object.fromEntries(Object.entries(now.inputRequests).map(([key, request]) => [key, respond(request)])) });
    }
    await listening;
    step('notified', { last: statuses.at(-1), subscription: typeof last?._meta?.[`${META}subscriptionId`] });
    printResult('result', last.result);
  },
  async resources() {
    const client = await connect();
    const { resources } = await client.listResources();
    step('list', { uris: resources.map(resource => resource.uri) });
    const { resourceTemplates } = await client.listResourceTemplates();
    step('templates', { templates: resourceTemplates.map(template => template.uriTemplate) });
    const read = await client.readResource({ uri: 'peer://note' });
    step('read', { text: read.contents[0].text });
    const item = await client.readResource({ uri: 'peer://item/7' });
    step('item', { text: item.contents[0].text });
    await expectError('missing', client.readResource({ uri: 'peer://missing' }));
  },
  /** The reference server "everything" (legacy, so behind a bridge): its plain tools and its one task tool. */
  async everything() {
    const client = await connect();
    printResult('echo', await client.callTool({ name: 'echo', arguments: { message: 'hello' } }));
    printResult('sum', await client.callTool({ name: 'get-sum', arguments: { a: 2, b: 3 } }));
    printResult('structured', await client.callTool({ name: 'get-structured-content', arguments: { location: 'Chicago' } }));
    printResult('image', await client.callTool({ name: 'get-tiny-image', arguments: {} }));
  },
  'everything-task': () => drive('simulate-research-query', { topic: 'bridges' }),
  'everything-question': () => drive('simulate-research-query', { topic: 'bridges', ambiguous: true }),
  /** Negotiation as a host that knows both eras does it. */
  async auto() {
    const client = new Client(clientInfo, { capabilities: inputs, versionNegotiation: { mode: 'auto' } });
    await client.connect(transport());
    closers.push(() => client.close());
    step('auto', { era: client.getProtocolEra(), protocolVersion: client.getNegotiatedProtocolVersion() });
    printResult('result', await client.callTool({ name: 'greet', arguments: { name: 'Ada' } }));
  },
  /** The v2 client on the legacy era (its default): no tasks of its own. */
  async 'legacy-era'() {
    const client = new Client(clientInfo, { capabilities: { elicitation: { form: {} } } });
    client.setRequestHandler('elicitation/create', ({ params }) => elicit(params));
    await client.connect(transport());
    closers.push(() => client.close());
    step('legacy', { era: client.getProtocolEra(), protocolVersion: client.getNegotiatedProtocolVersion() });
    printResult('result', await client.callTool({ name: 'greet', arguments: { name: 'Ada' } }));
    printResult('asked', await client.callTool({ name: 'ask_name', arguments: {} }));
  }
};

if (!url || !scenario) {
  console.error(`usage: modern-client.mjs URL SCENARIO [--header 'Name: value']…\nscenarios: ${Object.keys(scenarios).join(' ')}`);
  process.exit(2);
}

await runScenario(scenarios, scenario, undefined, async () => {
  for (const close of closers) await close();
});
