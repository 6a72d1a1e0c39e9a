// A command for the suite's client scenarios: starts the proxy before the
// suite's server and runs a client against it.
// node through.mjs PROXY CLIENT… URL (the suite appends the URL)
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';

const [proxy, client, ...rest] = process.argv.slice(2);
const url = rest.pop();
if (!url) {
  console.error('usage: node through.mjs PROXY CLIENT… URL');
  process.exit(2);
}

const server = spawn(proxy, ['serve', '--listen', '127.0.0.1:0', '--upstream', url], { stdio: ['ignore', 'ignore', 'pipe'] });
server.on('error', error => end(1, error.message));
server.on('close', code => end(1, `the proxy ended with ${code}`));
// The suite kills a shell around us when it is out of patience, not us.
setTimeout(() => end(1, 'out of time'), 45000).unref();

const lines = createInterface({ input: server.stderr });
const at = await new Promise(resolve => {
  lines.on('line', line => {
    if (line.startsWith('listening on ')) resolve(line.slice('listening on '.length));
    else if (/level=(WARN|ERROR)/.test(line)) console.error(line);
  });
});
const child = spawn(client, [...rest, at], { stdio: 'inherit' });
child.on('error', error => end(1, error.message));
child.on('close', code => end(code ?? 1));

function end(code, why) {
  if (why) console.error(why);
  child?.kill();
  server.kill();
  process.exit(code);
}
