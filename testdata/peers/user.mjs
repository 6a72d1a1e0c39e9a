// What the client peers share: the user who is asked, what is printed of a
// result, and the scenarios that are the same in both eras.
import { errorFields, step, textOf } from './lib.mjs';

export const RELATED = 'io.modelcontextprotocol/related-task';
export const terminal = status => ['completed', 'failed', 'cancelled'].includes(status);

/** What the user says to a form; scenarios change it. */
export const user = { answer: 'accept' };

/** Answers a form by the types of its fields. */
export function fill({ requestedSchema, message }) {
  const content = {};
  for (const [key, schema] of Object.entries(requestedSchema?.properties ?? {})) {
    if (schema.default !== undefined) content[key] = schema.default;
    else if (schema.enum) content[key] = schema.enum[0];
    else if (schema.oneOf) content[key] = schema.oneOf[0].const;
    else if (schema.type === 'array') content[key] = [(schema.items.enum ?? schema.items.anyOf.map(one => one.const))[0]];
    else if (schema.type === 'boolean') content[key] = true;
    else if (schema.type === 'number' || schema.type === 'integer') content[key] = 7;
    else content[key] = /colou?r/.test(key) ? 'green' : /second/i.test(message) ? 'Grace' : 'Ada';
  }
  return content;
}

/** The user's answer to an elicitation. */
export const elicited = params => (user.answer === 'accept' ? { action: 'accept', content: fill(params) } : { action: user.answer });

/** Prints a sampling request with more fields; answers it. */
export function sample(params, more = {}) {
  step('sampling', { text: params.messages[0]?.content?.text ?? null, ...more });
  return { model: 'peer-model', role: 'assistant', stopReason: 'endTurn', content: { type: 'text', text: 'something' } };
}

export const roots = () => ({ roots: [{ uri: 'file:///peer', name: 'peer' }] });

/** What is printed of every result. */
export const resultFields = result => ({
  text: textOf(result),
  isError: result.isError === true,
  ...(result.structuredContent ? { structured: result.structuredContent } : {})
});

/** Prints the result by `print`, or the error. */
export const attemptWith = print => async (name, promise) => {
  try {
    print(name, await promise);
  } catch (error) {
    step(name, { error: errorFields(error) });
  }
};

/** Scenarios without tasks; `connect` gives a client of the SDK, `print` prints a result. */
export function plainScenarios(connect, print) {
  const called = async (name, args = {}, options) => print('result', await (await connect(options)).callTool({ name, arguments: args }));
  const attempted = async (name, args = {}, options) => attemptWith(print)('result', (await connect(options)).callTool({ name, arguments: args }));
  return {
    async list() {
      const client = await connect();
      const { tools } = await client.listTools();
      for (const tool of tools) step('tool', { name: tool.name, taskSupport: tool.execution?.taskSupport ?? null });
      step('list', { count: tools.length });
    },
    call: () => called('echo', { text: 'hello', list: [1, 2.5, null], nested: { a: 'ü' } }),
    greet: () => called('greet', { name: 'Ada' }),
    'unknown-tool': () => attempted('no_such_tool'),
    ask: () => called('ask_name'),
    'ask-decline': () => ((user.answer = 'decline'), called('ask_name')),
    'ask-undeclared': () => attempted('ask_name', {}, { capabilities: {} }),
    'ask-twice': () => called('ask_twice'),
    sample: () => called('sample'),
    roots: () => called('roots'),
    async prompts() {
      const client = await connect();
      const { prompts } = await client.listPrompts();
      step('list', { names: prompts.map(prompt => prompt.name) });
      const prompt = await client.getPrompt({ name: 'hello', arguments: { name: 'Ada' } });
      step('get', { text: prompt.messages[0].content.text });
    }
  };
}
