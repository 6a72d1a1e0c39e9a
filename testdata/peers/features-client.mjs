// A client that goes through every feature of its SDK but tasks, on a feature
// server: node features-client.mjs --sdk 1|2 URL. SDK 1 is the v1 SDK, legacy;
// 2 is the v2 SDK pinned to 2026-07-28. A line a feature,
// {"step":NAME,…}, then {"ok":true}.
import { randomUUID } from 'node:crypto';
import { parseArgs, runScenario, sleep, step, textOf } from './lib.mjs';

const { options, positional } = parseArgs(process.argv.slice(2), ['sdk']);
const [url] = positional;
const modern = options.sdk === '2';

// ---- the two SDKs ----------------------------------------------------------

const info = { name: 'features-client', version: '1.0.0' };
const capabilities = { elicitation: { form: {}, url: {} }, sampling: { tools: {} }, roots: { listChanged: true } };
const LOG_LEVEL = 'io.modelcontextprotocol/logLevel';

async function legacySDK() {
  const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
  const { StreamableHTTPClientTransport } = await import('@modelcontextprotocol/sdk/client/streamableHttp.js');
  const types = await import('@modelcontextprotocol/sdk/types.js');
  const schemas = [...types.ServerRequestSchema.options, ...types.ServerNotificationSchema.options, types.ElicitationCompleteNotificationSchema];
  const schema = method => schemas.find(one => one.shape.method.value === method);
  const client = new Client(info, { capabilities });
  const transport = new StreamableHTTPClientTransport(new URL(url));
  return {
    client,
    transport,
    types,
    onRequest: (method, handler) => client.setRequestHandler(schema(method), handler),
    onNotice: (method, handler) => client.setNotificationHandler(schema(method), handler)
  };
}

async function modernSDK() {
  const { Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client');
  const client = new Client(info, { capabilities, versionNegotiation: { mode: { pin: '2026-07-28' } } });
  return {
    client,
    Client,
    Transport: StreamableHTTPClientTransport,
    transport: new StreamableHTTPClientTransport(new URL(url)),
    onRequest: (method, handler) => client.setRequestHandler(method, handler),
    onNotice: (method, handler) => client.setNotificationHandler(method, handler)
  };
}

const sdk = await (modern ? modernSDK() : legacySDK());
const { client } = sdk;

// ---- the user --------------------------------------------------------------

const user = { action: 'accept', roots: [{ uri: 'file:///one', name: 'one' }], asked: [], sampled: [] };
const seen = { logs: [], updated: [], changed: [], complete: 0 };

function fill({ requestedSchema }) {
  const content = {};
  for (const [key, schema] of Object.entries(requestedSchema?.properties ?? {})) {
    content[key] = schema.default ?? { name: 'Ada', colour: 'green' }[key];
  }
  return content;
}

function sample({ messages, tools, maxTokens, systemPrompt }) {
  const last = [].concat(messages.at(-1).content)[0];
  user.sampled.push(tools ? `${last.type} with ${tools.map(tool => tool.name)}` : `${last.text} (${systemPrompt}, ${maxTokens})`);
  const answer = content => ({ model: 'peer-model', role: 'assistant', stopReason: tools && last.type === 'text' ? 'toolUse' : 'endTurn', content });
  if (!tools) return answer({ type: 'text', text: 'something' });
  if (last.type === 'text') return answer([{ type: 'tool_use', id: 'use-1', name: 'lookup', input: { key: 'k' } }]);
  return answer({ type: 'text', text: `it is ${last.content[0].text}` });
}

sdk.onRequest('elicitation/create', ({ params }) => {
  user.asked.push(params.mode === 'url' ? `${params.message}: ${params.url}` : params.message);
  return user.action !== 'accept' || params.mode === 'url' ? { action: user.action } : { action: 'accept', content: fill(params) };
});
sdk.onRequest('sampling/createMessage', ({ params }) => sample(params));
sdk.onRequest('roots/list', () => ({ roots: user.roots }));
sdk.onNotice('notifications/message', ({ params }) => void seen.logs.push(`${params.level} ${params.logger}: ${params.data}`));
sdk.onNotice('notifications/resources/updated', ({ params }) => void seen.updated.push(params.uri));
sdk.onNotice('notifications/elicitation/complete', () => void seen.complete++);
for (const kind of ['tools', 'prompts', 'resources']) sdk.onNotice(`notifications/${kind}/list_changed`, () => void seen.changed.push(kind));

// ---- features --------------------------------------------------------------

const call = (name, args = {}, opts, more = {}) => (modern ? client.callTool({ name, arguments: args, ...more }, opts) : client.callTool({ name, arguments: args, ...more }, undefined, opts));

async function until(holds) {
  for (let i = 0; i < 100 && !(await holds()); i++) await sleep(50);
}

/** All pages of a list; the v2 SDK walks them itself. */
async function all(method, member) {
  const items = [];
  let pages = 0;
  let cursor;
  do {
    const result = await client[method](cursor === undefined ? (modern ? undefined : {}) : { cursor });
    items.push(...result[member]);
    cursor = result.nextCursor;
    pages++;
  } while (cursor !== undefined && pages < 20);
  return { items, pages };
}

async function asking(run) {
  user.asked = [];
  user.sampled = [];
  const result = await run();
  return { text: textOf(result), asked: user.asked, ...(user.sampled.length > 0 && { sampled: user.sampled }), ...(result.structuredContent && { structured: result.structuredContent }) };
}

const refused = promise => promise.then(result => ({ isError: result.isError === true }), ({ code }) => ({ code }));

let touched = 0;
async function touch() {
  Object.assign(seen, { updated: [], changed: [] });
  await call('touch');
  touched++;
  await until(() => new Set(seen.changed).size === 3);
  await sleep(100);
}
const changes = () => ({ changed: [...new Set(seen.changed)].sort(), updated: [...new Set(seen.updated)] });

const features = {
  connect() {
    const { tools, prompts, resources, logging, completions } = client.getServerCapabilities();
    return {
      server: client.getServerVersion().name,
      instructions: client.getInstructions(),
      version: modern ? client.getNegotiatedProtocolVersion() : sdk.transport.protocolVersion,
      session: sdk.transport.sessionId !== undefined,
      capabilities: { tools: tools?.listChanged === true, prompts: prompts?.listChanged === true, resources: resources?.listChanged === true, subscribe: resources?.subscribe === true, logging: logging !== undefined, completions: completions !== undefined }
    };
  },
  async discover() {
    if (!modern) return;
    const { supportedVersions } = await client.discover();
    return { versions: supportedVersions.includes('2026-07-28') };
  },
  async ping() {
    if (!modern) return { empty: Object.keys(await client.ping()).length === 0 };
  },
  async 'tools-list'() {
    const { items, pages } = await all('listTools', 'tools');
    const add = items.find(tool => tool.name === 'add');
    return {
      names: items.map(tool => tool.name).sort(),
      ...(!modern && { paged: pages > 1 }),
      add: { title: add.title, readOnly: add.annotations?.readOnlyHint, output: Object.keys(add.outputSchema?.properties ?? {}), icons: add.icons?.length ?? 0 }
    };
  },
  async call() {
    const result = await call('add', { a: 2, b: 3 });
    return { text: textOf(result), structured: result.structuredContent };
  },
  async 'call-error'() {
    const result = await call('fail');
    return { isError: result.isError, text: textOf(result) };
  },
  'unknown-tool': () => refused(call('no_such_tool')),
  async contents() {
    const { content } = await call('contents');
    return { blocks: content.map(block => `${block.type} ${block.text ?? block.data ?? block.uri ?? block.resource.text}`), priority: content[0].annotations?.priority ?? null };
  },
  async progress() {
    const notes = [];
    const result = await call('progress', { steps: 3 }, { onprogress: ({ progress, total, message }) => notes.push(`${progress}/${total} ${message}`) });
    return { text: textOf(result), notes };
  },
  async cancel() {
    const id = randomUUID();
    const abort = new AbortController();
    const ended = call('wait', { id }, { signal: abort.signal, onprogress: () => abort.abort('enough') }).then(() => 'answered', () => 'aborted');
    const outcome = await ended;
    let answer;
    await until(async () => (answer = textOf(await call('cancelled', { id }))) === 'yes');
    return { call: outcome, cancelled: answer };
  },
  async log() {
    const lines = {};
    for (const level of ['info', 'error']) {
      seen.logs = [];
      if (!modern) await client.setLoggingLevel(level);
      await call('log', {}, undefined, modern ? { _meta: { [LOG_LEVEL]: level } } : {});
      await until(() => seen.logs.length >= (level === 'info' ? 2 : 1));
      await sleep(50);
      lines[level] = seen.logs;
    }
    return { lines };
  },
  async 'prompts-list'() {
    const { items, pages } = await all('listPrompts', 'prompts');
    return { names: items.map(prompt => prompt.name).sort(), ...(!modern && { paged: pages > 1 }), arguments: items.find(prompt => prompt.name === 'hello').arguments.map(({ name, required }) => `${name} ${required}`) };
  },
  async 'prompt-get'() {
    const { description, messages } = await client.getPrompt({ name: 'hello', arguments: { name: 'Ada' } });
    const plain = await client.getPrompt({ name: 'plain' });
    return { description, role: messages[0].role, text: messages[0].content.text, plain: plain.messages[0].content.text };
  },
  'prompt-unknown': () => refused(client.getPrompt({ name: 'no_such_prompt' })),
  'prompt-asks': () => asking(async () => ({ content: [(await client.getPrompt({ name: 'asking' })).messages[0].content] })),
  async 'resources-list'() {
    const { items, pages } = await all('listResources', 'resources');
    return { uris: items.map(({ uri }) => uri).sort(), ...(!modern && { paged: pages > 1 }), mimeType: items.find(({ name }) => name === 'note').mimeType };
  },
  async templates() {
    const { items } = await all('listResourceTemplates', 'resourceTemplates');
    return { templates: items.map(({ uriTemplate, name }) => `${name} ${uriTemplate}`) };
  },
  async read() {
    const read = async uri => (await client.readResource({ uri })).contents[0];
    return { text: (await read('peer://note')).text, blob: (await read('peer://pixel')).blob, template: (await read('peer://item/7')).text };
  },
  'read-missing': () => refused(client.readResource({ uri: 'peer://nothing' })),
  'read-asks': () => asking(async () => ({ content: [{ text: (await client.readResource({ uri: 'peer://asking' })).contents[0].text }] })),
  async complete() {
    const values = async (ref, name, value, context) => (await client.complete({ ref, argument: { name, value }, ...(context && { context }) })).completion.values;
    const hello = { type: 'ref/prompt', name: 'hello' };
    return {
      prompt: await values(hello, 'name', 'A'),
      context: await values(hello, 'name', 'A', { arguments: { other: 'Ada' } }),
      template: await values({ type: 'ref/resource', uri: 'peer://item/{id}' }, 'id', '1')
    };
  },
  /** One subscription, its notices, and none after its end. */
  async subscribe() {
    if (!modern) {
      await client.subscribeResource({ uri: 'peer://note' });
      await touch();
      const during = changes();
      await client.unsubscribeResource({ uri: 'peer://note' });
      await touch();
      return { during, after: changes().updated };
    }
    const subscription = await client.listen({ toolsListChanged: true, promptsListChanged: true, resourcesListChanged: true, resourceSubscriptions: ['peer://note'] });
    await touch();
    const during = changes();
    await subscription.close();
    const closed = await subscription.closed;
    const rest = await client.listen({ toolsListChanged: true, promptsListChanged: true, resourcesListChanged: true });
    await touch();
    await rest.close();
    return { during, after: changes().updated, honoured: Object.keys(subscription.honoredFilter).length, closed };
  },
  ask: () => asking(() => call('ask')),
  async 'ask-declined'() {
    user.action = 'decline';
    const declined = await asking(() => call('ask'));
    user.action = 'cancel';
    const cancelled = await asking(() => call('ask'));
    user.action = 'accept';
    return { declined: declined.text, cancelled: cancelled.text };
  },
  'ask-form': () => asking(() => call('ask_form')),
  'ask-twice': () => asking(() => call('ask_twice')),
  'ask-all': () => asking(() => call('ask_all')),
  'ask-url': () => asking(() => call('ask_url')),
  sample: () => asking(() => call('sample')),
  'sample-tools': () => asking(() => call('sample_tools')),
  async roots() {
    const before = textOf(await call('roots'));
    user.roots = [...user.roots, { uri: 'file:///two', name: 'two' }];
    const sent = modern ? undefined : await client.sendRootsListChanged().then(() => 'sent', error => error.message);
    await sleep(100);
    return { before, after: textOf(await call('roots')), ...(sent && { changed: sent }) };
  },
  /** What the SDK has no word for: any request, any notification. */
  async raw() {
    const list = { method: 'resources/list', params: {} };
    const { resources } = modern ? await client.request(list) : await client.request(list, sdk.types.ListResourcesResultSchema);
    await client.notification({ method: 'notifications/com.example/x', params: {} });
    return { resources: resources.length > 0, ping: modern || Object.keys(await client.ping()).length === 0 };
  },
  /** What the v2 SDK itself refuses in the modern era. */
  async era() {
    if (!modern) return;
    const gone = { ping: () => client.ping(), setLoggingLevel: () => client.setLoggingLevel('info'), subscribeResource: () => client.subscribeResource({ uri: 'peer://note' }), unsubscribeResource: () => client.unsubscribeResource({ uri: 'peer://note' }), sendRootsListChanged: () => client.sendRootsListChanged() };
    const refused = [];
    for (const [name, run] of Object.entries(gone)) await run().catch(({ code }) => code === 'METHOD_NOT_SUPPORTED_BY_PROTOCOL_VERSION' && refused.push(name));
    return { era: client.getProtocolEra(), discovered: client.getDiscoverResult().supportedVersions.length > 0, refused };
  },
  /** A client that has itself told of list changes: the SDK opens the stream. */
  async 'auto-listen'() {
    if (!modern) return;
    const changed = new Set();
    const onChanged = kind => ({ onChanged: () => void changed.add(kind), autoRefresh: false });
    const other = new sdk.Client(info, { capabilities, versionNegotiation: { mode: { pin: '2026-07-28' } }, listChanged: { tools: onChanged('tools'), prompts: onChanged('prompts') } });
    await other.connect(new sdk.Transport(new URL(url)));
    const open = other.autoOpenedSubscription !== undefined;
    await touch();
    await until(() => changed.size === 2);
    await other.close();
    return { open, changed: [...changed].sort() };
  },
  async close() {
    if (!modern) await sdk.transport.terminateSession();
    await client.close();
    return { closed: client.transport === undefined };
  }
};

await runScenario(
  {
    async features() {
      await client.connect(sdk.transport);
      for (const [name, feature] of Object.entries(features)) {
        try {
          const result = await feature();
          if (result) step(name, result);
        } catch (error) {
          step(name, { error: error.code ?? null, message: String(error.message) });
        }
      }
    }
  },
  'features',
  undefined,
  () => client.close()
);
