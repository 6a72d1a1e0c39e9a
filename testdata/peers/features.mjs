// What the feature servers of both npm SDKs offer. The Go ones offer the same.
export const INSTRUCTIONS = 'A server with every feature.';

const schema = (properties = {}, required = Object.keys(properties)) => ({ type: 'object', properties, required });
const tool = (name, inputSchema = schema(), more = {}) => ({ name, description: `The tool ${name}`, inputSchema, ...more });
const number = { type: 'number' };
const string = { type: 'string' };

export const toolList = [
  tool('add', schema({ a: number, b: number }), {
    title: 'Addition',
    outputSchema: schema({ sum: number }),
    annotations: { readOnlyHint: true, idempotentHint: true },
    icons: [{ src: 'data:image/png;base64,iVBORw0KGgo=', mimeType: 'image/png', sizes: ['16x16'] }],
    _meta: { 'com.example/k': 1 }
  }),
  tool('fail'),
  tool('contents'),
  tool('progress', schema({ steps: { type: 'integer' } })),
  tool('wait', schema({ id: string })),
  tool('cancelled', schema({ id: string })),
  tool('log'),
  tool('touch'),
  tool('ask'),
  tool('ask_form'),
  tool('ask_twice'),
  tool('ask_all'),
  tool('ask_url'),
  tool('sample'),
  tool('sample_tools'),
  tool('roots')
];

export const contents = [
  { type: 'text', text: 'words', annotations: { audience: ['user'], priority: 0.5 } },
  { type: 'image', data: 'aW1hZ2U=', mimeType: 'image/png' },
  { type: 'audio', data: 'YXVkaW8=', mimeType: 'audio/wav' },
  { type: 'resource_link', uri: 'peer://note', name: 'note' },
  { type: 'resource', resource: { uri: 'peer://note', mimeType: 'text/plain', text: 'a note' } }
];

export const promptList = [
  { name: 'hello', description: 'A greeting', arguments: [{ name: 'name', description: 'Whom', required: true }] },
  { name: 'plain', description: 'Without arguments' },
  { name: 'asking', description: 'Asks for a name' }
];

const user = words => ({ messages: [{ role: 'user', content: { type: 'text', text: words } }] });
export const prompts = {
  hello: ({ name }) => ({ description: 'A greeting', ...user(`Say hello to ${name}`) }),
  plain: () => user('Say something'),
  asking: (_args, answer) => user(`Say hello to ${answer.content?.name}`)
};

export const resourceList = [
  { uri: 'peer://note', name: 'note', description: 'A note', mimeType: 'text/plain', size: 6 },
  { uri: 'peer://pixel', name: 'pixel', description: 'Bytes', mimeType: 'image/png' },
  { uri: 'peer://asking', name: 'asking', description: 'Asks for a name', mimeType: 'text/plain' }
];
export const templateList = [{ uriTemplate: 'peer://item/{id}', name: 'item', description: 'An item', mimeType: 'text/plain' }];

export function readResource(uri, answer) {
  const item = /^peer:\/\/item\/(.+)$/.exec(uri);
  const plain = words => ({ contents: [{ uri, mimeType: 'text/plain', text: words }] });
  if (item) return plain(`item ${item[1]}`);
  if (uri === 'peer://note') return plain('a note');
  if (uri === 'peer://asking') return plain(`for ${answer.content?.name}`);
  if (uri === 'peer://pixel') return { contents: [{ uri, mimeType: 'image/png', blob: 'cGl4ZWw=' }] };
}

/** Names for the prompt, ids for the template; what is already chosen counts. */
export function complete({ ref, argument, context }) {
  const all = ref.type === 'ref/prompt' ? ['Ada', 'Alan', 'Grace'] : ['1', '10', '2'];
  const values = all.filter(value => value.startsWith(argument.value) && !Object.values(context?.arguments ?? {}).includes(value));
  return { completion: { values, total: values.length, hasMore: false } };
}

const PAGE = { tools: 6, prompts: 2, resources: 2, resourceTemplates: 2 };
export function page(member, list, cursor) {
  const from = Number(cursor ?? 0);
  const to = from + PAGE[member];
  return { [member]: list.slice(from, to), ...(to < list.length && { nextCursor: String(to) }) };
}

const form = (message, properties, required) => ({ method: 'elicitation/create', params: { mode: 'form', message, requestedSchema: { type: 'object', properties, required } } });
const words = textOf => ({ role: 'user', content: { type: 'text', text: textOf } });
const lookup = { name: 'lookup', description: 'Looks up', inputSchema: schema({ key: string }) };
const withTools = messages => ({ method: 'sampling/createMessage', params: { messages, maxTokens: 50, tools: [lookup], toolChoice: { mode: 'auto' } } });

export const questions = {
  name: form('What is your name?', { name: string }, ['name']),
  colour: form('Which colour?', { colour: string }, ['colour']),
  form: form(
    'All about you?',
    {
      name: { type: 'string', title: 'Name', minLength: 1, default: 'Ada' },
      age: { type: 'integer', minimum: 0, default: 36 },
      height: { type: 'number', default: 170 },
      member: { type: 'boolean', default: true },
      colour: { type: 'string', enum: ['red', 'green'], default: 'green' },
      days: { type: 'array', items: { type: 'string', enum: ['mon', 'tue'] }, default: ['tue'] }
    },
    ['name']
  ),
  url: { method: 'elicitation/create', params: { mode: 'url', message: 'Please look', url: 'https://example.com/page' } },
  sample: { method: 'sampling/createMessage', params: { messages: [words('Say something')], maxTokens: 50, systemPrompt: 'Be short' } },
  sampleTools: withTools([words('What is under k?')]),
  sampleToolResult: (assistant, toolUseId) =>
    withTools([words('What is under k?'), { role: 'assistant', content: assistant }, { role: 'user', content: { type: 'tool_result', toolUseId, content: [{ type: 'text', text: '42' }] } }])
};

export const rootsText = ({ roots }) => roots.map(root => root.uri).join(' ');
