// A legacy (2025-11-25) server on the v1 SDK with every feature of its revision
// but tasks: what the feature clients go through. The low-level Server, because
// lists have pages. Options: --port N.
import { randomUUID } from 'node:crypto';
import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import {
  CallToolRequestSchema,
  CompleteRequestSchema,
  CreateMessageResultSchema,
  CreateMessageResultWithToolsSchema,
  ElicitResultSchema,
  ErrorCode,
  GetPromptRequestSchema,
  ListPromptsRequestSchema,
  ListResourceTemplatesRequestSchema,
  ListResourcesRequestSchema,
  ListRootsResultSchema,
  ListToolsRequestSchema,
  McpError,
  ReadResourceRequestSchema,
  SubscribeRequestSchema,
  UnsubscribeRequestSchema,
  isInitializeRequest
} from '@modelcontextprotocol/sdk/types.js';
import { parseArgs, readJson, serve, sleep, text } from './lib.mjs';
import { INSTRUCTIONS, complete, contents, page, promptList, prompts, questions, readResource, resourceList, rootsText, templateList, toolList } from './features.mjs';

const { options } = parseArgs(process.argv.slice(2), ['port']);
const cancelled = new Set(); // ids of `wait` calls that were cancelled; all sessions

function build() {
  const server = new Server(
    { name: 'features', version: '1.0.0' },
    {
      capabilities: {
        tools: { listChanged: true },
        resources: { subscribe: true, listChanged: true },
        prompts: { listChanged: true },
        logging: {},
        completions: {}
      },
      instructions: INSTRUCTIONS
    }
  );
  const subscribed = new Set();

  const tools = {
    add: ({ a, b }) => ({ ...text(a + b), structuredContent: { sum: a + b } }),
    fail: () => ({ ...text('failed on purpose'), isError: true }),
    contents: () => ({ content: contents }),
    async progress({ steps }, { _meta, sendNotification }) {
      for (let progress = 1; progress <= steps; progress++) {
        if (_meta?.progressToken !== undefined) {
          await sendNotification({ method: 'notifications/progress', params: { progressToken: _meta.progressToken, progress, total: steps, message: `step ${progress}` } });
        }
        await sleep(30);
      }
      return text(`${steps} steps`);
    },
    async wait({ id }, { _meta, sendNotification, signal }) {
      if (_meta?.progressToken !== undefined) {
        await sendNotification({ method: 'notifications/progress', params: { progressToken: _meta.progressToken, progress: 1 } });
      }
      await sleep(20_000, signal).catch(error => {
        cancelled.add(id);
        throw error;
      });
      return text('waited');
    },
    cancelled: ({ id }) => text(cancelled.has(id) ? 'yes' : 'no'),
    async log(_args, { sessionId }) {
      for (const level of ['debug', 'info', 'error']) await server.sendLoggingMessage({ level, logger: 'features', data: `a line of level ${level}` }, sessionId);
      // The lines go on the session's own stream, so that nothing orders them before the answer.
      await sleep(200);
      return text('logged');
    },
    async touch() {
      if (subscribed.has('peer://note')) await server.sendResourceUpdated({ uri: 'peer://note' });
      await server.sendToolListChanged();
      await server.sendPromptListChanged();
      await server.sendResourceListChanged();
      return text('touched');
    },
    async ask(_args, extra) {
      const answer = await ask(extra, questions.name);
      return text(answer.action === 'accept' ? `Hello, ${answer.content.name}` : `No name (${answer.action})`);
    },
    async ask_form(_args, extra) {
      const { action, content } = await ask(extra, questions.form);
      return { ...text(action), structuredContent: content };
    },
    async ask_twice(_args, extra) {
      const name = await ask(extra, questions.name);
      const colour = await ask(extra, questions.colour);
      return text(`${name.content.name} likes ${colour.content.colour}`);
    },
    async ask_all(_args, extra) {
      const [name, sample, roots] = await Promise.all([
        ask(extra, questions.name),
        extra.sendRequest(questions.sample, CreateMessageResultSchema),
        extra.sendRequest({ method: 'roots/list' }, ListRootsResultSchema)
      ]);
      return text(`${name.content.name}, ${sample.content.text}, ${rootsText(roots)}`);
    },
    async ask_url(_args, extra) {
      const elicitationId = randomUUID();
      const { action } = await extra.sendRequest({ ...questions.url, params: { ...questions.url.params, elicitationId } }, ElicitResultSchema);
      await extra.sendNotification({ method: 'notifications/elicitation/complete', params: { elicitationId } });
      return text(`page: ${action}`);
    },
    async sample(_args, extra) {
      const { content, model } = await extra.sendRequest(questions.sample, CreateMessageResultSchema);
      return text(`${model}: ${content.text}`);
    },
    async sample_tools(_args, extra) {
      const first = await extra.sendRequest(questions.sampleTools, CreateMessageResultWithToolsSchema);
      const use = [].concat(first.content).find(block => block.type === 'tool_use');
      const second = await extra.sendRequest(questions.sampleToolResult(first.content, use.id), CreateMessageResultWithToolsSchema);
      return text(`${use.name} ${JSON.stringify(use.input)}: ${[].concat(second.content)[0].text}`);
    },
    roots: async (_args, extra) => text(rootsText(await extra.sendRequest({ method: 'roots/list' }, ListRootsResultSchema)))
  };
  const ask = (extra, request) => extra.sendRequest(request, ElicitResultSchema);

  server.setRequestHandler(ListToolsRequestSchema, ({ params }) => page('tools', toolList, params?.cursor));
  server.setRequestHandler(CallToolRequestSchema, ({ params }, extra) => {
    if (!Object.hasOwn(tools, params.name)) throw new McpError(ErrorCode.InvalidParams, `Unknown tool: ${params.name}`);
    return tools[params.name](params.arguments ?? {}, extra);
  });
  server.setRequestHandler(ListPromptsRequestSchema, ({ params }) => page('prompts', promptList, params?.cursor));
  server.setRequestHandler(GetPromptRequestSchema, async ({ params }, extra) => {
    if (!Object.hasOwn(prompts, params.name)) throw new McpError(ErrorCode.InvalidParams, `Unknown prompt: ${params.name}`);
    const answer = params.name === 'asking' ? await ask(extra, questions.name) : undefined;
    return prompts[params.name](params.arguments ?? {}, answer);
  });
  server.setRequestHandler(ListResourcesRequestSchema, ({ params }) => page('resources', resourceList, params?.cursor));
  server.setRequestHandler(ListResourceTemplatesRequestSchema, ({ params }) => page('resourceTemplates', templateList, params?.cursor));
  server.setRequestHandler(ReadResourceRequestSchema, async ({ params: { uri } }, extra) => {
    const answer = uri === 'peer://asking' ? await ask(extra, questions.name) : undefined;
    const result = readResource(uri, answer);
    if (!result) throw new McpError(-32002, 'Resource not found', { uri });
    return result;
  });
  server.setRequestHandler(CompleteRequestSchema, ({ params }) => complete(params));
  server.setRequestHandler(SubscribeRequestSchema, ({ params }) => (subscribed.add(params.uri), {}));
  server.setRequestHandler(UnsubscribeRequestSchema, ({ params }) => (subscribed.delete(params.uri), {}));
  return server;
}

const sessions = new Map();

serve(options, async (req, res) => {
  if (new URL(req.url, 'http://peer').pathname !== '/mcp') return res.writeHead(404).end();
  const body = req.method === 'POST' ? await readJson(req) : undefined;
  const id = req.headers['mcp-session-id'];
  let transport = id === undefined ? undefined : sessions.get(id);
  if (!transport && id !== undefined) {
    return res.writeHead(404, { 'content-type': 'application/json' }).end(JSON.stringify({ jsonrpc: '2.0', id: null, error: { code: -32001, message: 'Session not found' } }));
  }
  if (!transport) {
    transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: () => randomUUID(),
      onsessioninitialized: sessionId => void sessions.set(sessionId, transport),
      onsessionclosed: sessionId => void sessions.delete(sessionId)
    });
    if (isInitializeRequest(body)) await build().connect(transport);
  }
  await transport.handleRequest(req, res, body);
});
