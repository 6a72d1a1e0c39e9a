// The public methods of the npm SDKs' clients and what their servers may send
// them, as one JSON object: the list that features.json is held against.
import { Client as LegacyClient } from '@modelcontextprotocol/sdk/client/index.js';
import { ElicitationCompleteNotificationSchema, ServerNotificationSchema, ServerRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { Client as ModernClient } from '@modelcontextprotocol/client';
import * as core from '@modelcontextprotocol/core/internal';

/** The methods of a class and those it extends; a leading underscore is private in both SDKs. */
function methods(prototype, prefix) {
  const names = new Set();
  for (; prototype && prototype !== Object.prototype; prototype = Object.getPrototypeOf(prototype)) {
    for (const name of Object.getOwnPropertyNames(prototype)) if (name !== 'constructor' && !name.startsWith('_')) names.add(`${prefix}.${name}`);
  }
  return [...names];
}

/** The messages of a union of schemas. */
const messages = (...unions) => unions.flatMap(union => union.options ?? [union]).map(schema => `handles ${schema.shape.method.value}`);

const info = { name: 'methods', version: '1' };
console.log(
  JSON.stringify({
    'npm @modelcontextprotocol/sdk 1.32.2': [
      ...methods(LegacyClient.prototype, 'client'),
      ...methods(Object.getPrototypeOf(new LegacyClient(info).experimental.tasks), 'client.experimental.tasks'),
      ...messages(ServerRequestSchema, ServerNotificationSchema, ElicitationCompleteNotificationSchema)
    ],
    'npm @modelcontextprotocol/client 2.4.0': [...methods(ModernClient.prototype, 'client'), ...messages(core.ServerRequestSchema, core.ServerNotificationSchema)]
  })
);
