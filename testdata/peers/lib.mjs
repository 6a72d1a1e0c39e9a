// What the peers share: arguments, the ready line, the end with stdin, the
// client's one-object-a-line output.
import { createServer } from 'node:http';

/** `--name value` and `--name=value` become options, `--name` alone true; the rest is positional. */
export function parseArgs(argv, valued = ['port', 'header', 'token']) {
  const options = {};
  const positional = [];
  const put = (name, value) => {
    if (name in options) options[name] = [].concat(options[name], value);
    else options[name] = value;
  };
  for (let i = 0; i < argv.length; i++) {
    const arg = argv[i];
    if (!arg.startsWith('--')) {
      positional.push(arg);
      continue;
    }
    const eq = arg.indexOf('=');
    const name = arg.slice(2, eq < 0 ? undefined : eq);
    if (eq >= 0) put(name, arg.slice(eq + 1));
    else if (valued.includes(name)) put(name, argv[++i]);
    else put(name, true);
  }
  return { options, positional };
}

/** The `--header 'Name: value'` options as a plain object. */
export function headersOf(options) {
  const headers = {};
  for (const line of [].concat(options.header ?? [])) {
    const colon = String(line).indexOf(':');
    if (colon < 1) throw new Error(`--header wants 'Name: value', got ${JSON.stringify(line)}`);
    headers[line.slice(0, colon).trim()] = line.slice(colon + 1).trim();
  }
  return headers;
}

/** The command in a `stdio:["program","argument"]` address; undefined for a URL. */
export function commandOf(url) {
  if (!url?.startsWith('stdio:')) return undefined;
  const [command, ...args] = JSON.parse(url.slice('stdio:'.length));
  return { command, args, stderr: process.env.PEER_DEBUG ? 'inherit' : 'ignore' };
}

/** Serves on loopback, prints the ready line, ends when stdin closes. */
export function serve(options, handle) {
  const server = createServer((req, res) => {
    Promise.resolve(handle(req, res)).catch(error => {
      console.error(error);
      if (!res.headersSent) res.writeHead(500);
      res.end();
    });
  });
  server.requestTimeout = 0;
  server.listen(Number(options.port ?? process.env.PORT ?? 0), '127.0.0.1', () => {
    console.log(`listening on http://127.0.0.1:${server.address().port}${options.sse === true ? '/sse' : '/mcp'}`);
  });
  dieWithStdin();
  return server;
}

/** A killed test closes our stdin: leave nothing behind. */
export function dieWithStdin(last = () => {}) {
  const end = () => {
    last();
    process.exit(0);
  };
  process.stdin.on('end', end).on('close', end).on('error', end).resume();
}

/** Reads a JSON body; undefined when it is not JSON. */
export async function readJson(req) {
  const chunks = [];
  for await (const chunk of req) chunks.push(chunk);
  try {
    return JSON.parse(Buffer.concat(chunks).toString('utf8'));
  } catch {
    return undefined;
  }
}

export const sleep = (ms, signal) =>
  new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const done = () => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', done);
      if (signal?.aborted) reject(signal.reason);
      else resolve();
    };
    const timer = setTimeout(done, ms);
    signal?.addEventListener('abort', done);
  });

/** Waits for a task's end among what statuses() gives: notifications come beside
 *  the answers. A server need not send any (2025-11-25 tasks, task status notification). */
export async function told(statuses) {
  for (let i = 0; i < 60 && !['completed', 'failed', 'cancelled'].includes(statuses().at(-1)); i++) await sleep(50);
}

export const text = value => ({ content: [{ type: 'text', text: String(value) }] });
export const textOf = result => (result?.content ?? []).map(block => block.text ?? `[${block.type}]`).join('\n');

/** One step of a client scenario. */
export const step = (name, fields = {}) => console.log(JSON.stringify({ step: name, ...fields }));

/** An error as fields to print. */
export const errorFields = error => ({
  code: error?.code ?? null,
  message: String(error?.message ?? error),
  ...(error?.data === undefined ? {} : { data: error.data })
});

/** Expects a failure and prints it; succeeding is the failure. */
export async function expectError(name, promise, code) {
  let value;
  try {
    value = await promise;
  } catch (error) {
    step(name, { error: errorFields(error) });
    if (code !== undefined && error?.code !== code) throw new Error(`${name}: wanted code ${code}, got ${error?.code}: ${error?.message}`);
    return error;
  }
  throw new Error(`${name}: wanted an error, got ${JSON.stringify(value)}`);
}

/** Runs scenario `name` under the overall deadline; prints the last line and ends the process. */
export async function runScenario(scenarios, name, argument, close, deadlineMs = Number(process.env.PEER_DEADLINE_MS ?? 30_000)) {
  let finished = false;
  const finish = async (ok, error) => {
    if (finished) return;
    finished = true;
    console.log(JSON.stringify(ok ? { ok } : { ok, error }));
    await Promise.race([Promise.resolve().then(close).catch(() => {}), sleep(1_000)]);
    process.exit(ok ? 0 : 1);
  };
  const timer = setTimeout(() => finish(false, `deadline of ${deadlineMs} ms passed`), deadlineMs);
  try {
    if (!Object.hasOwn(scenarios, name)) throw new Error(`no scenario ${JSON.stringify(name)}; there are: ${Object.keys(scenarios).join(' ')}`);
    await scenarios[name](argument);
    clearTimeout(timer);
    await finish(true);
  } catch (error) {
    clearTimeout(timer);
    await finish(false, String(error?.code === undefined ? error?.message ?? error : `${error.message} (code ${error.code})`));
  }
}
