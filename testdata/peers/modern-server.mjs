// A modern (2026-07-28) server with the tasks extension (SEP-2663) on the v2
// SDK. The SDK frames, checks headers and `_meta`, serves discover, MRTR and
// subscriptions; it has no task engine, so a small one stands here:
//   - tasks/get, tasks/update, tasks/cancel are custom methods of its Server;
//   - _wrapHandler lets a CreateTaskResult past the tools/call result check,
//     which would add `content: []` to it;
//   - subscriptions/listen with `taskIds` is answered in front of the SDK, whose
//     listen router drops them.
// Options: --port N, --poll MS (poll interval, 100), --ttl MS (life of a task,
// 600000), --mode auto|sse|json (response mode), --no-tasks (no extension),
// --more (further tools, see `more`), --legacy (also the SDK's own stateless
// 2025 serving; off: modern only), --stdio (serves standard input and output;
// listen streams then know no `taskIds`).
import { randomUUID } from 'node:crypto';
import {
  LOG_LEVEL_META_KEY,
  MissingRequiredClientCapabilityError,
  ProtocolError,
  SUBSCRIPTION_ID_META_KEY,
  SERVER_INFO_META_KEY,
  Server,
  classifyInboundRequest,
  createMcpHandler,
  createRequestStateCodec,
  inputRequired
} from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { z } from 'zod';
import { parseArgs, readJson, serve, sleep, text } from './lib.mjs';

const EXTENSION = 'io.modelcontextprotocol/tasks';
const CAPABILITIES = 'io.modelcontextprotocol/clientCapabilities';
const serverInfo = { name: 'modern-peer', version: '1.0.0' };

const { options } = parseArgs(process.argv.slice(2), ['port', 'poll', 'mode', 'ttl']);
const pollIntervalMs = Number(options.poll ?? 100);
const withTasks = options['no-tasks'] !== true;
const ttlMs = Number(options.ttl ?? 600_000);

// ---- tasks ---------------------------------------------------------------

const tasks = new Map();
const terminal = status => ['completed', 'failed', 'cancelled'].includes(status);

class Task {
  constructor(owner) {
    this.id = randomUUID();
    this.owner = owner;
    this.status = 'working';
    this.statusMessage = undefined;
    this.createdAt = this.lastUpdatedAt = new Date().toISOString();
    this.pending = new Map(); // key → {request, resolve}
    this.keys = 0;
    this.abort = new AbortController();
    this.watchers = new Set();
    tasks.set(this.id, this);
    setTimeout(() => tasks.delete(this.id), ttlMs).unref();
  }

  /** The Task fields, without the payload of its status. */
  view() {
    return {
      taskId: this.id,
      status: this.status,
      ...(this.statusMessage !== undefined && { statusMessage: this.statusMessage }),
      createdAt: this.createdAt,
      lastUpdatedAt: this.lastUpdatedAt,
      ttlMs,
      pollIntervalMs
    };
  }

  /** The DetailedTask. */
  detailed() {
    return {
      ...this.view(),
      ...(this.status === 'input_required' && { inputRequests: Object.fromEntries([...this.pending].map(([key, { request }]) => [key, request])) }),
      // The extension's examples carry no resultType here; ext-tasks 0.2.2 refuses the result without it.
      ...(this.status === 'completed' && { result: { resultType: 'complete', ...this.result } }),
      ...(this.status === 'failed' && { error: this.error })
    };
  }

  change(status, fields = {}) {
    if (terminal(this.status)) return;
    Object.assign(this, fields, { status, lastUpdatedAt: new Date().toISOString() });
    for (const watcher of this.watchers) watcher(this);
  }

  say(message) {
    this.change(this.pending.size > 0 ? 'input_required' : 'working', { statusMessage: message });
  }

  ask(request) {
    return new Promise((resolve, reject) => {
      this.pending.set(`in-${++this.keys}`, { request, resolve });
      this.abort.signal.addEventListener('abort', () => reject(new Error('cancelled')), { once: true });
      this.change('input_required');
    });
  }

  /** Answers to keys that are not outstanding are ignored. */
  answer(responses) {
    for (const [key, response] of Object.entries(responses ?? {})) {
      const waiting = this.pending.get(key);
      if (!waiting) continue;
      this.pending.delete(key);
      this.change(this.pending.size > 0 ? 'input_required' : 'working');
      waiting.resolve(response);
    }
  }

  cancel() {
    if (terminal(this.status)) return;
    this.change('cancelled', { statusMessage: 'cancelled by the client' });
    this.pending.clear();
    this.abort.abort(new Error('cancelled'));
  }

  start(run) {
    setImmediate(async () => {
      try {
        const result = await run(this);
        this.change('completed', { result });
      } catch (error) {
        if (this.abort.signal.aborted) return;
        this.change('failed', { statusMessage: error.message, error: { code: error.rpcCode ?? -32603, message: error.message, ...(error.rpcData && { data: error.rpcData }) } });
      }
    });
    return { resultType: 'task', ...this.view() };
  }
}

const ownerOf = headers => headers?.get('authorization') ?? '';

function find(taskId, owner) {
  const task = tasks.get(taskId);
  if (!task || task.owner !== owner) throw new ProtocolError(-32602, `Failed to retrieve task: Task not found`);
  return task;
}

const missing = () => new MissingRequiredClientCapabilityError({ requiredCapabilities: { extensions: { [EXTENSION]: {} } } }, 'Missing required client capability');
const declared = ctx => ctx.mcpReq.envelope?.[CAPABILITIES]?.extensions?.[EXTENSION] !== undefined;

// ---- tools ---------------------------------------------------------------

const confirmation = message => ({
  method: 'elicitation/create',
  params: { mode: 'form', message, requestedSchema: { type: 'object', properties: { confirm: { type: 'boolean', title: 'Confirm' } }, required: ['confirm'] } }
});
const nameQuestion = message => ({
  method: 'elicitation/create',
  params: { mode: 'form', message, requestedSchema: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] } }
});
const colourQuestion = {
  method: 'elicitation/create',
  params: { mode: 'form', message: 'Which colour?', requestedSchema: { type: 'object', properties: { colour: { type: 'string' } }, required: ['colour'] } }
};
const sampling = { method: 'sampling/createMessage', params: { messages: [{ role: 'user', content: { type: 'text', text: 'Say something' } }], maxTokens: 50 } };

const codec = createRequestStateCodec({ key: randomUUID() + randomUUID(), bind: ctx => ctx.mcpReq.method });
const object = (properties = {}, required = []) => ({ type: 'object', properties, required });

/** name → {schema, task: undefined|'optional'|'required', before(args, ctx, answers), call(args, ctx, answers), run(args, task, early)} */
const tools = {
  greet: {
    schema: object({ name: { type: 'string' } }, ['name']),
    call: ({ name }) => text(`Hello, ${name}!`)
  },
  slow_compute: {
    schema: object({ seconds: { type: 'number', default: 1 }, label: { type: 'string', default: '' } }),
    task: 'optional',
    // The shortcut the specification allows: nothing to wait for, no task.
    inline: ({ seconds = 1 }) => seconds === 0,
    call: (args, ctx) => compute(args, ctx.mcpReq.signal),
    run: (args, task) => compute(args, task.abort.signal, message => task.say(message))
  },
  failing_job: {
    schema: object(),
    task: 'required',
    run: async (_args, task) => {
      await sleep(200, task.abort.signal);
      return { ...text('failing_job failed on purpose'), isError: true };
    }
  },
  protocol_error_job: {
    schema: object(),
    task: 'optional',
    call: () => {
      throw new ProtocolError(-32011, 'protocol_error_job broke on purpose', { fixture: true });
    },
    run: async (_args, task) => {
      await sleep(200, task.abort.signal);
      throw Object.assign(new Error('protocol_error_job broke on purpose'), { rpcCode: -32011, rpcData: { fixture: true } });
    }
  },
  confirm_delete: {
    schema: object({ filename: { type: 'string' } }, ['filename']),
    task: 'required',
    run: async ({ filename }, task) => {
      const answer = await task.ask(confirmation(`Delete ${filename}?`));
      return text(answer.action === 'accept' ? `Deleted ${filename}` : `Kept ${filename} (${answer.action})`);
    }
  },
  multi_input: {
    schema: object(),
    task: 'required',
    run: async (_args, task) => {
      const answers = await Promise.all([task.ask(nameQuestion('First name?')), task.ask(nameQuestion('Second name?'))]);
      return text(`Got ${answers.map(answer => answer.content?.name ?? answer.action).join(' and ')}`);
    }
  },
  sample_task: {
    schema: object(),
    task: 'required',
    run: async (_args, task) => text(`Sampled: ${(await task.ask(sampling)).content?.text}`)
  },
  test_tool_with_task: {
    schema: object(),
    task: 'required',
    before: async (_args, ctx, { name }) =>
      name ? undefined : inputRequired({ inputRequests: { name: nameQuestion('What is your name?') }, requestState: await codec.mint({ tool: 'test_tool_with_task' }, ctx) }),
    run: async (_args, task, { name }) => {
      await sleep(100, task.abort.signal);
      return text(`Hello, ${name.content?.name ?? name.action}`);
    }
  },
  echo: {
    schema: { type: 'object', properties: { text: { type: 'string' } } },
    call: args => ({ ...text(args.text ?? JSON.stringify(args)), structuredContent: args })
  },
  ask_name: {
    schema: object(),
    call: async (_args, ctx, { name }) => {
      if (!name) return inputRequired({ inputRequests: { name: nameQuestion('What is your name?') }, requestState: await codec.mint({ tool: 'ask_name' }, ctx) });
      return text(name.action === 'accept' ? `Hello, ${name.content?.name}` : `No name (${name.action})`);
    }
  },
  ask_twice: {
    schema: object(),
    call: async (_args, ctx, { name, colour }) => {
      if (name) return inputRequired({ inputRequests: { colour: colourQuestion }, requestState: await codec.mint({ name: name.content?.name ?? name.action }, ctx) });
      if (colour) return text(`${ctx.mcpReq.requestState()?.name} likes ${colour.content?.colour ?? colour.action}`);
      return inputRequired({ inputRequests: { name: nameQuestion('What is your name?') } });
    }
  },
  sample: {
    schema: object(),
    call: (_args, _ctx, { sample }) => (sample ? text(`Sampled: ${sample.content?.text}`) : inputRequired({ inputRequests: { sample: sampling } }))
  },
  roots: {
    schema: object(),
    call: (_args, _ctx, { roots }) => (roots ? text(roots.roots.map(root => root.uri).join(' ')) : inputRequired({ inputRequests: { roots: { method: 'roots/list' } } }))
  },
  progress: {
    schema: object({ steps: { type: 'integer', default: 3 } }),
    call: async ({ steps = 3 }, ctx) => {
      const progressToken = ctx.mcpReq._meta?.progressToken;
      for (let progress = 1; progress <= steps; progress++) {
        if (progressToken !== undefined) {
          await ctx.mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress, total: steps, message: `step ${progress}` } });
        }
        await sleep(50, ctx.mcpReq.signal);
      }
      return text(`${steps} steps`);
    }
  },
  log: {
    schema: object(),
    call: async (_args, ctx) => {
      for (const level of ['debug', 'info', 'error']) await ctx.mcpReq.log(level, `a line of level ${level}`, 'peer');
      return text(`logged at ${ctx.mcpReq.envelope?.[LOG_LEVEL_META_KEY] ?? 'no level'}`);
    }
  },
  touch: {
    schema: object(),
    call: () => {
      handler.notify.resourceUpdated('peer://note');
      handler.notify.toolsChanged();
      return text('touched');
    }
  }
};

/** Tools that the tables of what a client lists do not have. */
const more = {
  slow_plain: {
    schema: object({ seconds: { type: 'number' } }),
    call: async ({ seconds = 1 }, ctx) => {
      await sleep(seconds * 1_000, ctx.mcpReq.signal);
      return text(`answered after ${seconds} s`);
    }
  },
  rounds_task: {
    schema: object(),
    task: 'required',
    run: async (_args, task) => {
      const name = await task.ask(nameQuestion('What is your name?'));
      const colour = await task.ask(colourQuestion);
      const again = await task.ask(confirmation(`Paint ${name.content?.name} ${colour.content?.colour}?`));
      return text(again.action === 'accept' ? `Painted ${name.content?.name} ${colour.content?.colour}` : `Left ${name.content?.name} alone`);
    }
  },
  roots_task: {
    schema: object(),
    task: 'required',
    run: async (_args, task) => text((await task.ask({ method: 'roots/list' })).roots.map(root => root.uri).join(' '))
  }
};
if (options.more === true) Object.assign(tools, more);

async function compute({ seconds = 1, label = '' }, signal, say = () => {}) {
  const whole = Math.floor(seconds);
  for (let second = 1; second <= whole; second++) {
    await sleep(1_000, signal);
    if (second < seconds) say(`second ${second} of ${seconds}`);
  }
  await sleep((seconds - whole) * 1_000, signal);
  return { ...text(`computed ${label} in ${seconds} s`), structuredContent: { label, seconds } };
}

async function callTool({ params }, ctx) {
  const tool = Object.hasOwn(tools, params.name) && (withTasks || !tools[params.name].task) ? tools[params.name] : undefined;
  if (!tool) throw new ProtocolError(-32602, `Unknown tool: ${params.name}`);
  const args = params.arguments ?? {};
  for (const name of tool.schema.required ?? []) {
    if (args[name] === undefined) return { ...text(`Missing argument: ${name}`), isError: true };
  }
  const taskable = tool.task && declared(ctx);
  if (tool.task === 'required' && !taskable) throw missing();
  const answers = ctx.mcpReq.inputResponses ?? {};
  const early = await tool.before?.(args, ctx, answers);
  if (early) return early;
  if (taskable && !tool.inline?.(args)) {
    return new Task(ownerOf(ctx.http?.req?.headers)).start(task => tool.run(args, task, answers));
  }
  return tool.call(args, ctx, answers);
}

// ---- the server ----------------------------------------------------------

class TaskServer extends Server {
  _wrapHandler(method, handler) {
    if (method !== 'tools/call') return super._wrapHandler(method, handler);
    return async (request, ctx) => {
      let created;
      const checked = super._wrapHandler(method, async (...args) => {
        const result = await handler(...args);
        if (result.resultType !== 'task') return result;
        created = result;
        return { content: [] };
      });
      const result = await checked(request, ctx);
      return created ?? result;
    };
  }
}

function build() {
  const server = new TaskServer(serverInfo, {
    capabilities: {
      tools: { listChanged: true },
      resources: { subscribe: true, listChanged: true },
      prompts: { listChanged: true },
      logging: {},
      ...(withTasks && { extensions: { [EXTENSION]: {} } })
    },
    instructions: 'A fixture. Ask it anything.',
    requestState: { verify: codec.verify }
  });

  server.setRequestHandler('tools/list', () => ({
    tools: Object.entries(tools)
      .filter(([, tool]) => withTasks || !tool.task)
      .map(([name, { schema }]) => ({ name, description: `${name} of the modern peer`, inputSchema: schema }))
  }));
  server.setRequestHandler('tools/call', callTool);

  if (withTasks) {
    const params = z.looseObject({ taskId: z.string() });
    const method = (name, handle) =>
      server.setRequestHandler(name, { params }, ({ taskId }, ctx) => {
        if (!declared(ctx)) throw missing();
        return handle(find(taskId, ownerOf(ctx.http?.req?.headers)), ctx) ?? {};
      });
    method('tasks/get', task => task.detailed());
    // The SDK moves inputResponses out of the params of every method.
    method('tasks/update', (task, ctx) => void task.answer(ctx.mcpReq.inputResponses));
    method('tasks/cancel', task => void task.cancel());
  }

  server.setRequestHandler('resources/list', () => ({ resources: [{ uri: 'peer://note', name: 'note', description: 'A note', mimeType: 'text/plain' }] }));
  server.setRequestHandler('resources/templates/list', () => ({ resourceTemplates: [{ uriTemplate: 'peer://item/{id}', name: 'item', description: 'An item' }] }));
  server.setRequestHandler('resources/read', ({ params: { uri } }) => {
    const item = /^peer:\/\/item\/(.+)$/.exec(uri);
    if (uri !== 'peer://note' && !item) throw new ProtocolError(-32602, `Resource ${uri} not found`, { uri });
    return { contents: [{ uri, mimeType: 'text/plain', text: item ? `item ${item[1]}` : 'a note' }] };
  });
  server.setRequestHandler('prompts/list', () => ({ prompts: [{ name: 'hello', description: 'A greeting', arguments: [{ name: 'name', required: true }] }] }));
  server.setRequestHandler('prompts/get', ({ params }) => {
    if (params.name !== 'hello') throw new ProtocolError(-32602, `Prompt ${params.name} not found`);
    return { messages: [{ role: 'user', content: { type: 'text', text: `Say hello to ${params.arguments?.name}` } }] };
  });
  return server;
}

const handler = createMcpHandler(build, {
  legacy: options.legacy ? 'stateless' : 'reject',
  ...(options.mode && { responseMode: options.mode }),
  onerror: error => process.env.PEER_DEBUG && console.error(error.message)
});
const node = toNodeHandler(handler);

// ---- subscriptions/listen with taskIds -------------------------------------

const FILTERS = {
  tools_list_changed: ['toolsListChanged', 'notifications/tools/list_changed'],
  prompts_list_changed: ['promptsListChanged', 'notifications/prompts/list_changed'],
  resources_list_changed: ['resourcesListChanged', 'notifications/resources/list_changed']
};

function listen(req, res, message) {
  const rpcError = (status, code, errorMessage, data) =>
    res
      .writeHead(status, { 'content-type': 'application/json' })
      .end(JSON.stringify({ jsonrpc: '2.0', id: message.id, error: { code, message: errorMessage, ...(data && { data }) } }));

  const outcome = classifyInboundRequest({
    httpMethod: 'POST',
    protocolVersionHeader: req.headers['mcp-protocol-version'],
    mcpMethodHeader: req.headers['mcp-method'],
    body: message
  });
  if (outcome.kind === 'reject') return rpcError(outcome.httpStatus ?? 400, outcome.code, outcome.message, outcome.data);
  if (message.params?._meta?.[CAPABILITIES]?.extensions?.[EXTENSION] === undefined) {
    const error = missing();
    return rpcError(400, error.code, error.message, error.data);
  }

  const wanted = message.params.notifications;
  const owner = req.headers.authorization ?? '';
  const watched = [...new Set(wanted.taskIds)].map(id => tasks.get(id)).filter(task => task && task.owner === owner);
  const honoured = {
    ...(watched.length > 0 && { taskIds: watched.map(task => task.id) }),
    ...(wanted.resourceSubscriptions?.length > 0 && { resourceSubscriptions: wanted.resourceSubscriptions })
  };
  for (const [filter] of Object.values(FILTERS)) if (wanted[filter] === true) honoured[filter] = true;

  res.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache, no-transform', 'x-accel-buffering': 'no' });
  const write = body => res.write(`event: message\ndata: ${JSON.stringify({ jsonrpc: '2.0', ...body })}\n\n`);
  const notify = (method, params = {}) => write({ method, params: { ...params, _meta: { ...params._meta, [SUBSCRIPTION_ID_META_KEY]: message.id } } });

  notify('notifications/subscriptions/acknowledged', { notifications: honoured });
  if (Object.keys(honoured).length === 0) {
    write({ id: message.id, result: { resultType: 'complete', _meta: { [SUBSCRIPTION_ID_META_KEY]: message.id, [SERVER_INFO_META_KEY]: serverInfo } } });
    return res.end();
  }

  const onTask = task => notify('notifications/tasks', task.detailed());
  for (const task of watched) task.watchers.add(onTask);
  const unsubscribe = handler.bus.subscribe(event => {
    if (event.kind === 'resource_updated') {
      if (honoured.resourceSubscriptions?.includes(event.uri)) notify('notifications/resources/updated', { uri: event.uri });
    } else if (honoured[FILTERS[event.kind][0]]) notify(FILTERS[event.kind][1]);
  });
  const keepAlive = setInterval(() => res.write(': keepalive\n\n'), 15_000);
  res.on('close', () => {
    clearInterval(keepAlive);
    unsubscribe();
    for (const task of watched) task.watchers.delete(onTask);
  });
}

if (options.stdio) serveStdio(build, { legacy: options.legacy ? 'serve' : 'reject' });
else serve(options, async (req, res) => {
  if (new URL(req.url, 'http://peer').pathname !== '/mcp') return res.writeHead(404).end();
  if (req.method !== 'POST') return node(req, res);
  const body = await readJson(req);
  if (withTasks && body?.method === 'subscriptions/listen' && Array.isArray(body.params?.notifications?.taskIds)) return listen(req, res, body);
  // A body that is not JSON goes on as a string, which the SDK refuses as it would have.
  return node(req, res, body ?? '');
});
