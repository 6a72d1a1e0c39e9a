// A legacy (2025-11-25) client on the v1 SDK that plays the official suite's
// client scenarios of the modern revision, through the proxy.
// node suite-client.mjs URL, with MCP_CONFORMANCE_SCENARIO and
// MCP_CONFORMANCE_CONTEXT as the suite sets them.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { CreateMessageRequestSchema, ElicitRequestSchema, ListRootsRequestSchema } from '@modelcontextprotocol/sdk/types.js';

const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? '{}');
const scenario = process.env.MCP_CONFORMANCE_SCENARIO;

/** A refusal of one call is the suite's to judge, not the end of the scenario. */
async function attempt(what, run) {
  try {
    return await run();
  } catch (error) {
    console.error(`${what}: ${error.message}`);
  }
}

const call = (client, name, args = {}) => attempt(name, () => client.callTool({ name, arguments: args }));

async function headers(client) {
  const { tools } = await client.listTools();
  await call(client, tools[0].name);
  const { resources } = await client.listResources();
  await attempt('read', () => client.readResource({ uri: resources[0].uri }));
  const { prompts } = await client.listPrompts();
  await attempt('get', () => client.getPrompt({ name: prompts[0].name }));
}

const scenarios = {
  tools_call: async client => {
    await client.listTools();
    await client.callTool({ name: 'add_numbers', arguments: { a: 5, b: 3 } });
  },
  'request-metadata': client => client.listTools(),
  'sep-2322-client-request-state': async client => {
    for (const name of ['echo_state', 'no_state', 'unrelated', 'no_result_type']) await call(client, `test_mrtr_${name}`);
  },
  'http-standard-headers': headers,
  'http-custom-headers': async client => {
    await client.listTools();
    for (const { name, arguments: args } of context.toolCalls) await call(client, name, args);
  },
  'http-invalid-tool-headers': async client => {
    const { tools } = await client.listTools();
    for (const { name } of tools) await call(client, name, { region: 'us-west1' });
  },
  'json-schema-ref-no-deref': client => client.listTools(),
  'json-schema-2020-12-preservation': async client => {
    const { tools } = await client.listTools();
    await client.callTool({ name: 'json_schema_echo', arguments: { schema: tools.find(t => t.name === 'json_schema_2020_12_tool').inputSchema } });
  }
};

if (!process.argv[2] || !scenarios[scenario]) {
  console.error(`usage: MCP_CONFORMANCE_SCENARIO=NAME node suite-client.mjs URL\nscenarios: ${Object.keys(scenarios).join(' ')}`);
  process.exit(2);
}

const client = new Client({ name: 'suite-client', version: '1.0.0' }, { capabilities: { elicitation: {}, sampling: {}, roots: {} } });
client.setRequestHandler(ElicitRequestSchema, async () => ({ action: 'accept', content: { confirmed: true } }));
client.setRequestHandler(CreateMessageRequestSchema, async () => ({ model: 'm', role: 'assistant', content: { type: 'text', text: 'something' } }));
client.setRequestHandler(ListRootsRequestSchema, async () => ({ roots: [] }));
await client.connect(new StreamableHTTPClientTransport(new URL(process.argv[2])));
await scenarios[scenario](client);
await client.close();
