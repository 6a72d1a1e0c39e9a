// A modern (2026-07-28) client: the v2 SDK alone, without ext-tasks, on a tool,
// prompt or resource of any server. node modern-call.mjs URL KIND NAME [JSON]
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { errorFields, parseArgs, runScenario, step, textOf } from './lib.mjs';
import { fill, roots, sample } from './user.mjs';

const [url, scenario, name, json] = parseArgs(process.argv.slice(2)).positional;
const args = json ? JSON.parse(json) : {};
let client;

async function connect() {
  const capabilities = { elicitation: { form: {} }, sampling: {}, roots: {} };
  client = new Client({ name: 'modern-call-client', version: '1.0.0' }, { capabilities, versionNegotiation: { mode: { pin: '2026-07-28' } } });
  client.setRequestHandler('elicitation/create', ({ params }) => {
    step('question', { message: params.message });
    return { action: 'accept', content: fill(params) };
  });
  client.setRequestHandler('sampling/createMessage', ({ params }) => sample(params));
  client.setRequestHandler('roots/list', roots);
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
}

async function attempt(label, run) {
  await connect();
  try {
    step(label, await run());
  } catch (error) {
    step(label, { error: errorFields(error) });
  }
}

// onprogress also hears of the client's own rounds of questions.
async function call(options) {
  const result = await client.callTool({ name, arguments: args }, options);
  return { text: textOf(result), isError: result.isError === true };
}

const scenarios = {
  list: () => attempt('list', async () => ({ count: (await client.listTools()).tools.length })),
  tool: () => attempt('result', () => call()),
  progress: async () => {
    const seen = [];
    await attempt('result', () => call({ onprogress: ({ progress }) => seen.push(progress) }));
    step('progress', { seen });
  },
  prompt: () =>
    attempt('get', async () => {
      const { messages } = await client.getPrompt({ name, arguments: args });
      return { text: messages[0].content.text ?? `[${messages[0].content.type}]`, messages: messages.length };
    }),
  resource: () => attempt('read', async () => ({ text: (await client.readResource({ uri: name })).contents[0].text ?? '[blob]' }))
};

await runScenario(scenarios, scenario, undefined, () => client?.close());
