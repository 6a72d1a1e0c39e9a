// A modern (2026-07-28) server on the v2 SDK with every feature of its revision
// but tasks: what the feature clients go through. Options: --port N.
import { randomUUID } from 'node:crypto';
import { ProtocolError, Server, createMcpHandler, createRequestStateCodec, inputRequired } from '@modelcontextprotocol/server';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { parseArgs, readJson, serve, sleep, text } from './lib.mjs';
import { INSTRUCTIONS, complete, contents, page, promptList, prompts, questions, readResource, resourceList, rootsText, templateList, toolList } from './features.mjs';

const { options } = parseArgs(process.argv.slice(2), ['port']);
const cancelled = new Set();
const codec = createRequestStateCodec({ key: randomUUID() + randomUUID(), bind: ctx => ctx.mcpReq.method });

const answers = ctx => ctx.mcpReq.inputResponses ?? {};
const askFor = (key, request) => inputRequired({ inputRequests: { [key]: request } });
const notifyProgress = (ctx, params) => {
  const progressToken = ctx.mcpReq._meta?.progressToken;
  if (progressToken !== undefined) return ctx.mcpReq.notify({ method: 'notifications/progress', params: { progressToken, ...params } });
};

const tools = {
  add: ({ a, b }) => ({ ...text(a + b), structuredContent: { sum: a + b } }),
  fail: () => ({ ...text('failed on purpose'), isError: true }),
  contents: () => ({ content: contents }),
  async progress({ steps }, ctx) {
    for (let progress = 1; progress <= steps; progress++) {
      await notifyProgress(ctx, { progress, total: steps, message: `step ${progress}` });
      await sleep(30);
    }
    return text(`${steps} steps`);
  },
  async wait({ id }, ctx) {
    await notifyProgress(ctx, { progress: 1 });
    await sleep(20_000, ctx.mcpReq.signal).catch(error => {
      cancelled.add(id);
      throw error;
    });
    return text('waited');
  },
  cancelled: ({ id }) => text(cancelled.has(id) ? 'yes' : 'no'),
  async log(_args, ctx) {
    for (const level of ['debug', 'info', 'error']) await ctx.mcpReq.log(level, `a line of level ${level}`, 'features');
    return text('logged');
  },
  touch() {
    handler.notify.resourceUpdated('peer://note');
    handler.notify.toolsChanged();
    handler.notify.promptsChanged();
    handler.notify.resourcesChanged();
    return text('touched');
  },
  ask(_args, ctx) {
    const { name } = answers(ctx);
    if (!name) return askFor('name', questions.name);
    return text(name.action === 'accept' ? `Hello, ${name.content.name}` : `No name (${name.action})`);
  },
  ask_form(_args, ctx) {
    const { form } = answers(ctx);
    return form ? { ...text(form.action), structuredContent: form.content } : askFor('form', questions.form);
  },
  async ask_twice(_args, ctx) {
    const { name, colour } = answers(ctx);
    if (name) return inputRequired({ inputRequests: { colour: questions.colour }, requestState: await codec.mint({ name: name.content.name }, ctx) });
    return colour ? text(`${ctx.mcpReq.requestState().name} likes ${colour.content.colour}`) : askFor('name', questions.name);
  },
  ask_all(_args, ctx) {
    const { name, sample, roots } = answers(ctx);
    if (!name) return inputRequired({ inputRequests: { name: questions.name, sample: questions.sample, roots: { method: 'roots/list' } } });
    return text(`${name.content.name}, ${sample.content.text}, ${rootsText(roots)}`);
  },
  ask_url(_args, ctx) {
    const { page } = answers(ctx);
    return page ? text(`page: ${page.action}`) : askFor('page', questions.url);
  },
  sample(_args, ctx) {
    const { sample } = answers(ctx);
    return sample ? text(`${sample.model}: ${sample.content.text}`) : askFor('sample', questions.sample);
  },
  async sample_tools(_args, ctx) {
    const { first, second } = answers(ctx);
    if (first) {
      const use = [].concat(first.content).find(block => block.type === 'tool_use');
      return inputRequired({ inputRequests: { second: questions.sampleToolResult(first.content, use.id) }, requestState: await codec.mint({ name: use.name, input: use.input }, ctx) });
    }
    if (!second) return askFor('first', questions.sampleTools);
    const { name, input } = ctx.mcpReq.requestState();
    return text(`${name} ${JSON.stringify(input)}: ${[].concat(second.content)[0].text}`);
  },
  roots(_args, ctx) {
    const { roots } = answers(ctx);
    return roots ? text(rootsText(roots)) : askFor('roots', { method: 'roots/list' });
  }
};

function build() {
  const server = new Server(
    { name: 'features', version: '1.0.0' },
    {
      capabilities: { tools: { listChanged: true }, resources: { subscribe: true, listChanged: true }, prompts: { listChanged: true }, logging: {}, completions: {} },
      instructions: INSTRUCTIONS,
      requestState: { verify: codec.verify }
    }
  );
  server.setRequestHandler('tools/list', ({ params }) => page('tools', toolList, params?.cursor));
  server.setRequestHandler('tools/call', ({ params }, ctx) => {
    if (!Object.hasOwn(tools, params.name)) throw new ProtocolError(-32602, `Unknown tool: ${params.name}`);
    return tools[params.name](params.arguments ?? {}, ctx);
  });
  server.setRequestHandler('prompts/list', ({ params }) => page('prompts', promptList, params?.cursor));
  server.setRequestHandler('prompts/get', ({ params }, ctx) => {
    if (!Object.hasOwn(prompts, params.name)) throw new ProtocolError(-32602, `Unknown prompt: ${params.name}`);
    const { name } = answers(ctx);
    return params.name === 'asking' && !name ? askFor('name', questions.name) : prompts[params.name](params.arguments ?? {}, name);
  });
  server.setRequestHandler('resources/list', ({ params }) => page('resources', resourceList, params?.cursor));
  server.setRequestHandler('resources/templates/list', ({ params }) => page('resourceTemplates', templateList, params?.cursor));
  server.setRequestHandler('resources/read', ({ params: { uri } }, ctx) => {
    const { name } = answers(ctx);
    if (uri === 'peer://asking' && !name) return askFor('name', questions.name);
    const result = readResource(uri, name);
    if (!result) throw new ProtocolError(-32602, 'Resource not found', { uri });
    return result;
  });
  server.setRequestHandler('completion/complete', ({ params }) => complete(params));
  return server;
}

const handler = createMcpHandler(build, { legacy: 'reject', onerror: error => process.env.PEER_DEBUG && console.error(error) });
const node = toNodeHandler(handler);

serve(options, async (req, res) => {
  if (new URL(req.url, 'http://peer').pathname !== '/mcp') return res.writeHead(404).end();
  if (req.method !== 'POST') return node(req, res);
  return node(req, res, (await readJson(req)) ?? '');
});
