/**
 * The baseline for a single heartbeat: a bare Fastify server with the same validation and a reply
 * of the same form. The argument is the port.
 */
import Fastify from 'fastify';
import type { TSchema } from 'typebox';
import { Compile } from 'typebox/compile';
import { Heartbeat, HeartbeatReply } from '../../src/contract/agent/agent.ts';

const app = Fastify({ logger: false });
app.setValidatorCompiler(({ schema }) => {
  const validator = Compile(schema as TSchema);
  return (value) => (validator.Check(value) ? { value } : { error: new Error('invalid body') });
});
app.post(
  '/v1/agent/heartbeat',
  { schema: { body: Heartbeat, response: { 200: JSON.parse(JSON.stringify(HeartbeatReply)) } } },
  async () => ({ node_status: 'ready', heartbeat_interval_seconds: 10.123, tasks_waiting: 0 }),
);
await app.listen({ host: '127.0.0.1', port: Number(process.argv[2]) });
