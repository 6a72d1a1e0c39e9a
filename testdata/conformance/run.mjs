// Runs scenarios of the official conformance suite and prints a table:
//   node run.mjs URL [SCENARIO…]               against a server; without names the `tasks-*` ones
//   node run.mjs URL --requirements REVISION   the suite's own frozen set of that revision
//   node run.mjs --client COMMAND SCENARIO…    a client: the command gets the URL of the suite's server
// Options: [--jobs N] [--json FILE] [--spec-version V] [--timeout MS]
// Exit code: 0 nothing failed and something passed, 1 otherwise, 2 wrong usage.
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const home = join(here, 'node_modules/@modelcontextprotocol/conformance');
const suite = join(home, 'dist/index.js');
const bundled = join(here, 'node_modules/node/bin/node');
// The suite wants Node 22 (fs.globSync); it comes along as a package.
const node = Number(process.versions.node.split('.')[0]) >= 22 ? process.execPath : bundled;

const usage = message => {
  console.error(
    `${message}\nusage: node run.mjs URL [SCENARIO…] | URL --requirements REVISION | --client COMMAND SCENARIO…` +
      ' [--jobs N] [--json FILE] [--spec-version V] [--timeout MS]'
  );
  process.exit(2);
};

const names = [];
const options = { jobs: '4' };
const argv = process.argv.slice(2);
for (let i = 0; i < argv.length; i++) {
  if (!argv[i].startsWith('--')) names.push(argv[i]);
  else if (argv[i + 1] === undefined) usage(`${argv[i]} wants a value`);
  else options[argv[i].slice(2)] = argv[++i];
}
const leg = options.client ? 'client' : 'server';
const target = options.client ? ['client', '--command', options.client] : ['server', '--url', names.shift()];
if (!target.at(-1)) usage('no URL');
if (options.client && names.length === 0) usage('no scenario');
if (!existsSync(suite) || !existsSync(node)) usage('not installed: run `npm ci` in testdata/conformance');

/** Runs the suite; gives its exit code, its words, and the checks of each scenario it ran. */
async function run(args) {
  const out = mkdtempSync(join(tmpdir(), 'conformance-'));
  try {
    const { code, output } = await new Promise((resolve, reject) => {
      const child = spawn(node, [suite, ...target, ...args, '-o', out], { stdio: ['ignore', 'pipe', 'pipe'] });
      let output = '';
      child.stdout.on('data', chunk => (output += chunk));
      child.stderr.on('data', chunk => (output += chunk));
      child.on('error', reject);
      child.on('close', code => resolve({ code: code ?? 1, output }));
    });
    const checks = new Map();
    for (const path of readdirSync(out, { recursive: true })) {
      // A folder is server-NAME-TIME, of a client NAME-TIME.
      const [, name] = /^(.+)-\d{4}-\d\d-\d\dT[^/]*[/\\]checks\.json$/.exec(path) ?? [];
      if (name) checks.set(leg === 'server' ? name.replace(/^server-/, '') : name, JSON.parse(readFileSync(join(out, path), 'utf8')));
    }
    return { code, output, checks };
  } finally {
    rmSync(out, { recursive: true, force: true });
  }
}

/** What a scenario's checks come to. `unscored` says why the suite does not count it. */
function row(scenario, checks = [], problem, unscored) {
  const count = status => checks.filter(check => check.status === status).length;
  const row = { scenario, unscored, passed: count('SUCCESS'), failed: count('FAILURE'), warned: count('WARNING'), skipped: count('SKIPPED') };
  row.checks = checks.filter(check => check.status !== 'INFO').map(({ id, status }) => ({ id, status }));
  row.problems = checks
    .filter(check => check.status === 'FAILURE' || check.status === 'WARNING')
    .map(check => `${check.id}: ${check.errorMessage ?? check.description}`);
  if (problem) row.problems.push(problem);
  row.verdict = row.failed > 0 || problem ? 'fail' : row.passed > 0 || row.warned > 0 ? 'pass' : 'skip';
  return row;
}

const words = ({ code, output }) => `(exit ${code}) ${output.trim().split('\n').slice(-5).join(' | ')}`;

/** The scenarios of a revision's set, with the reason of those that are not scored; tasks have a run of their own. */
function required(revision) {
  const text = readFileSync(join(home, 'requirements', `${revision}.yaml`), 'utf8');
  const [, list] = new RegExp(`^${leg}:\\n((?:(?: +.*|#.*)?\\n)*)`, 'm').exec(text);
  const scored = [...list.matchAll(/^ +- (\S+)$/gm)].map(([, name]) => [name]);
  const rest = [...text.matchAll(/- scenario: (\S+)\n +leg: (\w+)\n +reason: (\S+)/g)].filter(([, name, of]) => of === leg && !name.startsWith('tasks-'));
  return [...scored, ...rest.map(([, name, , reason]) => [name, reason])];
}

async function requirements(revision) {
  const ran = await run(['--requirements', revision]);
  return required(revision).map(([name, reason]) => row(name, ran.checks.get(name), ran.checks.has(name) ? undefined : `did not run ${words(ran)}`, reason));
}

async function scenario(name) {
  const args = ['--scenario', name, '--verbose'];
  for (const option of ['spec-version', 'timeout']) if (options[option]) args.push(`--${option}`, options[option]);
  let ran, checks;
  // The suite has a scenario that measures 200 ms; late, on a busy machine, says nothing.
  for (let tries = 3; tries > 0; tries--) {
    ran = await run(args);
    checks = ran.checks.get(name) ?? [];
    if (!checks.some(check => /^Client reconnected (slightly|very) late/.test(check.errorMessage ?? ''))) break;
  }
  // A client that ends badly has not played its scenario.
  const bad = checks.length === 0 || (leg === 'client' && ran.code !== 0 && !checks.some(check => check.status === 'WARNING' || check.status === 'FAILURE'));
  return row(name, checks, bad ? words(ran) : undefined);
}

const TASKS = [
  'tasks-capability-negotiation',
  'tasks-lifecycle',
  'tasks-dispatch-and-envelope',
  'tasks-wire-fields',
  'tasks-request-headers',
  'tasks-request-state-removal',
  'tasks-required-task-error',
  'tasks-mrtr-input',
  'tasks-mrtr-composition',
  'tasks-status-notifications'
];

let rows = [];
if (options.requirements) {
  rows = await requirements(options.requirements);
} else {
  const queue = (names.length > 0 ? names : TASKS).map((name, index) => ({ name, index }));
  await Promise.all(
    Array.from({ length: Math.max(1, Number(options.jobs)) }, async () => {
      for (let next; (next = queue.shift()); ) rows[next.index] = await scenario(next.name);
    })
  );
}

const width = Math.max(...rows.map(row => row.scenario.length));
console.log(`${'scenario'.padEnd(width)}  verdict  pass  fail  warn  skip`);
for (const row of rows) {
  const cells = [row.passed, row.failed, row.warned, row.skipped].map(value => String(value).padStart(4)).join('  ');
  console.log(`${row.scenario.padEnd(width)}  ${row.verdict.padEnd(7)}  ${cells}${row.unscored ? `  (${row.unscored})` : ''}`);
  for (const problem of row.problems) console.log(`  ${problem}`);
}
const total = verdict => rows.filter(row => row.verdict === verdict && !row.unscored).length;
console.log(`${total('pass')} passed, ${total('fail')} failed, ${total('skip')} skipped`);
if (options.json) writeFileSync(options.json, `${JSON.stringify(rows, null, 2)}\n`);
process.exit(total('fail') === 0 && total('pass') > 0 ? 0 : 1);
