// A legacy (2025-11-25) tasks server on the v1 SDK: one transport and one
// McpServer a session, one task store a process (tasks belong to a session).
// Options: --port N, --json (JSON replies in place of SSE), --poll MS (poll
// interval of tasks, 100), --no-tasks (declares no tasks; task tools are absent),
// --stdio (serves standard input and output), --sse (HTTP+SSE at /sse, messages
// at /message, instead of Streamable HTTP).
import { randomUUID } from 'node:crypto';
import { McpServer, ResourceTemplate } from '@modelcontextprotocol/sdk/server/mcp.js';
import { SSEServerTransport } from '@modelcontextprotocol/sdk/server/sse.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { InMemoryTaskStore, InMemoryTaskMessageQueue } from '@modelcontextprotocol/sdk/experimental/tasks/stores/in-memory.js';
import {
  CreateMessageResultSchema,
  ElicitResultSchema,
  ListRootsResultSchema,
  SubscribeRequestSchema,
  UnsubscribeRequestSchema,
  isInitializeRequest
} from '@modelcontextprotocol/sdk/types.js';
import { z } from 'zod';
import { parseArgs, readJson, serve, sleep, text } from './lib.mjs';

const { options } = parseArgs(process.argv.slice(2), ['port', 'poll']);
const pollInterval = Number(options.poll ?? 100);
const withTasks = options['no-tasks'] !== true;

/** The SDK's store keeps results only; this one also keeps JSON-RPC errors and aborts cancelled work. */
class Store extends InMemoryTaskStore {
  errors = new Map();
  work = new Map();

  signal(taskId) {
    const controller = new AbortController();
    this.work.set(taskId, controller);
    return controller.signal;
  }

  async failWith(taskStore, taskId, error) {
    this.errors.set(taskId, error);
    await taskStore.updateTaskStatus(taskId, 'failed', error.message);
  }

  async updateTaskStatus(taskId, status, message, sessionId) {
    await super.updateTaskStatus(taskId, status, message, sessionId);
    if (status === 'cancelled') this.work.get(taskId)?.abort(new Error('cancelled'));
  }

  async getTaskResult(taskId, sessionId) {
    if (this.lookup(taskId, sessionId) && this.errors.has(taskId)) throw this.errors.get(taskId);
    return super.getTaskResult(taskId, sessionId);
  }
}

const store = new Store();
const queue = new InMemoryTaskMessageQueue();

const confirmation = message => ({
  method: 'elicitation/create',
  params: {
    mode: 'form',
    message,
    requestedSchema: { type: 'object', properties: { confirm: { type: 'boolean', title: 'Confirm' } }, required: ['confirm'] }
  }
});
const nameQuestion = message => ({
  method: 'elicitation/create',
  params: { mode: 'form', message, requestedSchema: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] } }
});

function build() {
  const mcp = new McpServer(
    { name: 'legacy-peer', version: '1.0.0' },
    {
      capabilities: {
        tools: { listChanged: true },
        resources: { subscribe: true, listChanged: true },
        prompts: { listChanged: true },
        logging: {},
        ...(withTasks && { tasks: { list: {}, cancel: {}, requests: { tools: { call: {} } } } })
      },
      instructions: 'A fixture. Ask it anything.',
      ...(withTasks && { taskStore: store, taskMessageQueue: queue })
    }
  );

  /** A task tool: `run(args, {taskId, extra, signal, ask, status})` gives the CallToolResult; an error with a numeric code fails the task with it. */
  const taskTool = (name, taskSupport, inputSchema, run, { before } = {}) => {
    if (!withTasks) return;
    mcp.experimental.tasks.registerToolTask(
      name,
      { description: `${name} (task ${taskSupport})`, inputSchema, execution: { taskSupport } },
      {
        createTask: async (args, extra) => {
          const early = before ? await before(args, extra) : undefined;
          const task = await extra.taskStore.createTask({ ttl: extra.taskRequestedTtl ?? null, pollInterval });
          const signal = store.signal(task.taskId);
          const context = {
            early,
            signal,
            status: message => extra.taskStore.updateTaskStatus(task.taskId, 'working', message),
            ask: (request, schema = ElicitResultSchema) =>
              extra.sendRequest(request, schema, { relatedTask: { taskId: task.taskId }, timeout: 120_000 })
          };
          setImmediate(async () => {
            try {
              const result = await run(args, context);
              await extra.taskStore.storeTaskResult(task.taskId, result.isError ? 'failed' : 'completed', result);
            } catch (error) {
              if (signal.aborted) return;
              const fail = Number.isInteger(error?.rpcCode)
                ? store.failWith(extra.taskStore, task.taskId, Object.assign(new Error(error.message), { code: error.rpcCode, data: error.rpcData }))
                : extra.taskStore.storeTaskResult(task.taskId, 'failed', { ...text(error?.message ?? error), isError: true });
              await fail.catch(() => {});
            }
          });
          return { task };
        },
        getTask: async (_args, extra) => extra.taskStore.getTask(extra.taskId),
        getTaskResult: async (_args, extra) => extra.taskStore.getTaskResult(extra.taskId)
      }
    );
  };

  mcp.registerTool('greet', { description: 'Says hello', inputSchema: { name: z.string() } }, async ({ name }) => text(`Hello, ${name}!`));

  taskTool('slow_compute', 'optional', { seconds: z.number().default(1), label: z.string().default('') }, async ({ seconds, label }, { signal, status }) => {
    const whole = Math.floor(seconds);
    for (let second = 1; second <= whole; second++) {
      await sleep(1_000, signal);
      if (second < seconds) await status(`second ${second} of ${seconds}`);
    }
    await sleep((seconds - whole) * 1_000, signal);
    return { ...text(`computed ${label} in ${seconds} s`), structuredContent: { label, seconds } };
  });

  taskTool('failing_job', 'required', {}, async (_args, { signal }) => {
    await sleep(200, signal);
    return { ...text('failing_job failed on purpose'), isError: true };
  });

  taskTool('protocol_error_job', 'optional', {}, async (_args, { signal }) => {
    await sleep(200, signal);
    throw Object.assign(new Error('protocol_error_job broke on purpose'), { rpcCode: -32011, rpcData: { fixture: true } });
  });

  taskTool('confirm_delete', 'required', { filename: z.string() }, async ({ filename }, { ask, status }) => {
    const answer = await ask(confirmation(`Delete ${filename}?`));
    await status('answered');
    return text(answer.action === 'accept' ? `Deleted ${filename}` : `Kept ${filename} (${answer.action})`);
  });

  taskTool('multi_input', 'required', {}, async (_args, { ask, status }) => {
    const answers = await Promise.all([ask(nameQuestion('First name?')), ask(nameQuestion('Second name?'))]);
    await status('answered');
    return text(`Got ${answers.map(answer => answer.content?.name ?? answer.action).join(' and ')}`);
  });

  taskTool('sample_task', 'required', {}, async (_args, { ask, status }) => {
    const answer = await ask(
      { method: 'sampling/createMessage', params: { messages: [{ role: 'user', content: { type: 'text', text: 'Say something' } }], maxTokens: 50 } },
      CreateMessageResultSchema
    );
    await status('answered');
    return text(`Sampled: ${answer.content.text}`);
  });

  taskTool('test_tool_with_task', 'required', {}, async (_args, { early, signal }) => {
    await sleep(100, signal);
    return text(`Hello, ${early.content?.name ?? early.action}`);
  }, { before: (_args, extra) => extra.sendRequest(nameQuestion('What is your name?'), ElicitResultSchema, { timeout: 120_000 }) });

  mcp.registerTool('echo', { description: 'Gives its arguments back', inputSchema: z.looseObject({ text: z.string().optional() }) }, async args => ({
    ...text(args.text ?? JSON.stringify(args)),
    structuredContent: args
  }));

  mcp.registerTool('ask_name', { description: 'Asks for a name during a plain call', inputSchema: {} }, async (_args, extra) => {
    const answer = await extra.sendRequest(nameQuestion('What is your name?'), ElicitResultSchema, { timeout: 120_000 });
    return text(answer.action === 'accept' ? `Hello, ${answer.content?.name}` : `No name (${answer.action})`);
  });

  mcp.registerTool('ask_twice', { description: 'Asks for a name, then for a colour', inputSchema: {} }, async (_args, extra) => {
    const name = await extra.sendRequest(nameQuestion('What is your name?'), ElicitResultSchema, { timeout: 120_000 });
    const colour = await extra.sendRequest(
      {
        method: 'elicitation/create',
        params: { mode: 'form', message: 'Which colour?', requestedSchema: { type: 'object', properties: { colour: { type: 'string' } }, required: ['colour'] } }
      },
      ElicitResultSchema,
      { timeout: 120_000 }
    );
    return text(`${name.content?.name ?? name.action} likes ${colour.content?.colour ?? colour.action}`);
  });

  mcp.registerTool('sample', { description: 'Samples during a plain call', inputSchema: {} }, async (_args, extra) => {
    const answer = await extra.sendRequest(
      { method: 'sampling/createMessage', params: { messages: [{ role: 'user', content: { type: 'text', text: 'Say something' } }], maxTokens: 50 } },
      CreateMessageResultSchema,
      { timeout: 120_000 }
    );
    return text(`Sampled: ${answer.content.text}`);
  });

  mcp.registerTool('roots', { description: 'Lists the roots of the client', inputSchema: {} }, async (_args, extra) => {
    const { roots } = await extra.sendRequest({ method: 'roots/list' }, ListRootsResultSchema, { timeout: 120_000 });
    return text(roots.map(root => root.uri).join(' '));
  });

  mcp.registerTool('progress', { description: 'Reports progress', inputSchema: { steps: z.number().int().default(3) } }, async ({ steps }, extra) => {
    const progressToken = extra._meta?.progressToken;
    for (let progress = 1; progress <= steps; progress++) {
      if (progressToken !== undefined) {
        await extra.sendNotification({ method: 'notifications/progress', params: { progressToken, progress, total: steps, message: `step ${progress}` } });
      }
      await sleep(50, extra.signal);
    }
    return text(`${steps} steps`);
  });

  mcp.registerTool('log', { description: 'Writes one log line of each of three levels', inputSchema: {} }, async (_args, extra) => {
    for (const level of ['debug', 'info', 'error']) {
      if (loggingAllows(mcp, extra.sessionId, level)) {
        await extra.sendNotification({ method: 'notifications/message', params: { level, logger: 'peer', data: `a line of level ${level}` } });
      }
    }
    return text('logged');
  });

  mcp.registerTool('touch', { description: 'Says that the resource and the list of tools changed', inputSchema: {} }, async (_args, extra) => {
    if (subscribed.has('peer://note')) await mcp.server.sendResourceUpdated({ uri: 'peer://note' });
    mcp.sendToolListChanged();
    return text('touched');
  });

  const subscribed = new Set();
  mcp.server.setRequestHandler(SubscribeRequestSchema, async ({ params }) => (subscribed.add(params.uri), {}));
  mcp.server.setRequestHandler(UnsubscribeRequestSchema, async ({ params }) => (subscribed.delete(params.uri), {}));

  mcp.registerResource('note', 'peer://note', { description: 'A note', mimeType: 'text/plain' }, async uri => ({
    contents: [{ uri: uri.href, mimeType: 'text/plain', text: 'a note' }]
  }));
  mcp.registerResource('item', new ResourceTemplate('peer://item/{id}', { list: undefined }), { description: 'An item' }, async (uri, { id }) => ({
    contents: [{ uri: uri.href, mimeType: 'text/plain', text: `item ${id}` }]
  }));
  mcp.registerPrompt('hello', { description: 'A greeting', argsSchema: { name: z.string() } }, async ({ name }) => ({
    messages: [{ role: 'user', content: { type: 'text', text: `Say hello to ${name}` } }]
  }));

  return mcp;
}

/** The SDK keeps the session's level to itself and applies it in sendLoggingMessage only. */
function loggingAllows(mcp, sessionId, level) {
  return !mcp.server.isMessageIgnored?.(level, sessionId);
}

const sessions = new Map();

/** HTTP+SSE (2024-11-05): the stream is the session. */
async function overSSE(req, res) {
  const { pathname, searchParams } = new URL(req.url, 'http://peer');
  if (req.method === 'GET' && pathname === '/sse') {
    const transport = new SSEServerTransport('/message', res);
    sessions.set(transport.sessionId, transport);
    res.on('close', () => sessions.delete(transport.sessionId));
    return build().connect(transport);
  }
  const transport = req.method === 'POST' && pathname === '/message' ? sessions.get(searchParams.get('sessionId')) : undefined;
  if (!transport) return res.writeHead(404).end();
  await transport.handlePostMessage(req, res, await readJson(req));
}

if (options.stdio) await build().connect(new StdioServerTransport());
else serve(options, async (req, res) => {
  if (options.sse === true) return overSSE(req, res);
  if (new URL(req.url, 'http://peer').pathname !== '/mcp') return res.writeHead(404).end();
  const body = req.method === 'POST' ? await readJson(req) : undefined;
  const id = req.headers['mcp-session-id'];
  let transport = id === undefined ? undefined : sessions.get(id);
  if (!transport && id !== undefined) {
    return res
      .writeHead(404, { 'content-type': 'application/json' })
      .end(JSON.stringify({ jsonrpc: '2.0', id: null, error: { code: -32001, message: 'Session not found' } }));
  }
  if (!transport) {
    transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: () => randomUUID(),
      enableJsonResponse: options.json === true,
      onsessioninitialized: sessionId => void sessions.set(sessionId, transport),
      onsessionclosed: sessionId => void sessions.delete(sessionId)
    });
    if (isInitializeRequest(body)) await build().connect(transport);
  }
  await transport.handleRequest(req, res, body);
});
