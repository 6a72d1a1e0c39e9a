// The reference server "everything" (legacy, one required task tool:
// simulate-research-query; Streamable HTTP, or HTTP+SSE with --sse) behind the peers' ready line. The package binds
// every address and logs on stdout; here it is held to loopback and stderr.
import { Server } from 'node:net';
import { dieWithStdin, parseArgs } from './lib.mjs';

const { options } = parseArgs(process.argv.slice(2), ['port']);

console.log = console.error;
const listen = Server.prototype.listen;
Server.prototype.listen = function (port, ...rest) {
  const done = rest.find(value => typeof value === 'function');
  return listen.call(this, { port: Number(port), host: '127.0.0.1' }, () => {
    process.stdout.write(`listening on http://127.0.0.1:${this.address().port}${options.sse === true ? '/sse' : '/mcp'}\n`);
    done?.();
  });
};

process.env.PORT = String(options.port ?? process.env.PORT ?? 0);
process.argv = [process.argv[0], 'everything', options.sse === true ? 'sse' : 'streamableHttp'];
dieWithStdin();
await import('@modelcontextprotocol/server-everything/dist/index.js');
