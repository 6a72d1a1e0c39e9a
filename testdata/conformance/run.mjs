// Runs scenarios of the official conformance suite against a server and prints
// a table: node run.mjs URL [SCENARIO…] [--jobs N] [--json FILE] [--spec-version V] [--timeout MS]
// Without names: the ten `tasks-*` scenarios. With --requirements REVISION the
// suite's own frozen set of that revision runs instead and prints its own words.
// Exit code: 0 nothing failed and something passed, 1 otherwise, 2 wrong usage.
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

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

const here = dirname(fileURLToPath(import.meta.url));
const suite = join(here, 'node_modules/@modelcontextprotocol/conformance/dist/index.js');
const bundled = join(here, 'node_modules/node/bin/node');
// The suite wants Node 22 (fs.globSync); it comes along as a package.
const node = Number(process.versions.node.split('.')[0]) >= 22 ? process.execPath : bundled;

const usage = message => {
  console.error(`${message}\nusage: node run.mjs URL [SCENARIO…] [--jobs N] [--json FILE] [--spec-version V] [--timeout MS] | URL --requirements REVISION`);
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
const url = names.shift();
if (!url) usage('no URL');
if (!existsSync(suite) || !existsSync(node)) usage('not installed: run `npm ci` in testdata/conformance');

function run(args, stdio) {
  return new Promise((resolve, reject) => {
    const child = spawn(node, [suite, 'server', '--url', url, ...args], { stdio });
    let output = '';
    child.stdout?.on('data', chunk => (output += chunk));
    child.stderr?.on('data', chunk => (output += chunk));
    child.on('error', reject);
    child.on('close', code => resolve({ code: code ?? 1, output }));
  });
}

if (options.requirements) {
  const { code } = await run(['--requirements', options.requirements], 'inherit');
  process.exit(code === 0 ? 0 : 1);
}

async function runScenario(name) {
  const out = mkdtempSync(join(tmpdir(), 'conformance-'));
  const started = Date.now();
  try {
    const args = ['--scenario', name, '-o', out, '--verbose'];
    for (const option of ['spec-version', 'timeout']) if (options[option]) args.push(`--${option}`, options[option]);
    const { code, output } = await run(args, ['ignore', 'pipe', 'pipe']);
    const file = readdirSync(out, { recursive: true }).find(path => path.endsWith('checks.json'));
    const checks = file ? JSON.parse(readFileSync(join(out, file), 'utf8')) : [];
    const count = status => checks.filter(check => check.status === status).length;
    const row = { scenario: name, passed: count('SUCCESS'), failed: count('FAILURE'), warned: count('WARNING'), skipped: count('SKIPPED'), ms: Date.now() - started };
    row.problems = checks
      .filter(check => check.status === 'FAILURE' || check.status === 'WARNING')
      .map(check => `${check.id}: ${check.errorMessage ?? check.description}`);
    if (checks.length === 0) row.problems.push(`no checks ran (exit ${code}): ${output.trim().split('\n').slice(-5).join(' | ')}`);
    row.verdict = row.failed > 0 || checks.length === 0 || (code !== 0 && row.warned === 0) ? 'fail' : row.passed > 0 ? 'pass' : 'skip';
    return row;
  } finally {
    rmSync(out, { recursive: true, force: true });
  }
}

const queue = (names.length > 0 ? names : TASKS).map((name, index) => ({ name, index }));
const rows = [];
await Promise.all(
  Array.from({ length: Math.max(1, Number(options.jobs)) }, async () => {
    for (let next; (next = queue.shift()); ) rows[next.index] = await runScenario(next.name);
  })
);

const width = Math.max(...rows.map(row => row.scenario.length));
console.log(`${'scenario'.padEnd(width)}  verdict  pass  fail  warn  skip`);
for (const row of rows) {
  const cells = [row.passed, row.failed, row.warned, row.skipped].map(value => String(value).padStart(4)).join('  ');
  console.log(`${row.scenario.padEnd(width)}  ${row.verdict.padEnd(7)}  ${cells}`);
  for (const problem of row.problems) console.log(`  ${problem}`);
}
const total = verdict => rows.filter(row => row.verdict === verdict).length;
console.log(`${total('pass')} passed, ${total('fail')} failed, ${total('skip')} skipped`);
if (options.json) writeFileSync(options.json, `${JSON.stringify(rows, null, 2)}\n`);
process.exit(total('fail') === 0 && total('pass') > 0 ? 0 : 1);
