/** Tests how calls choose among several addresses of the control plane. */
import { expect, test } from 'vitest';
import { type Answer, anyServer, type Call, type Transport } from './transport.ts';

const call: Call = { name: 'agent-heartbeat', method: 'POST', path: '/', headers: {}, timeout_ms: 1 };
const failure = {
  call: call.name,
  owner_layer: 'transport',
  layer: 'tcp',
  code: 'x',
  detail: '',
  retry_after_seconds: null,
  deadline_at: null,
};

/** A server that answers with the given status, or not at all if it is null. */
function server(status: number | null) {
  const calls = { times: 0, status };
  const transport: Transport = {
    async call<T>(_: Call, read: (body: unknown) => T | null): Promise<Answer<T>> {
      calls.times++;
      const body = read({});
      if (calls.status === 200 && body !== null) return { ok: true, status: 200, body };
      return { ok: false, failure: { ...failure, status: calls.status } };
    },
    interruptions: () => 0,
    close() {},
  };
  return { calls, transport };
}

const read = () => true;

test('skips an address that does not answer, and then prefers the one that answered', async () => {
  const [dead, alive] = [server(null), server(200)];
  const http = anyServer([dead.transport, alive.transport]);
  expect(await http.call(call, read)).toMatchObject({ ok: true });
  expect(await http.call(call, read)).toMatchObject({ ok: true });
  expect([dead.calls.times, alive.calls.times]).toEqual([1, 2]);
  alive.calls.status = null;
  dead.calls.status = 200;
  expect(await http.call(call, read)).toMatchObject({ ok: true });
});

test('does not try another address after a refusal', async () => {
  const [refusing, other] = [server(403), server(200)];
  const http = anyServer([refusing.transport, other.transport]);
  expect(await http.call(call, read)).toMatchObject({ ok: false, failure: { status: 403 } });
  expect(other.calls.times).toBe(0);
});

test('tries each address once and returns the failure if none answers', async () => {
  const [one, two] = [server(null), server(null)];
  const http = anyServer([one.transport, two.transport]);
  expect(await http.call(call, read)).toMatchObject({ ok: false, failure: { status: null } });
  expect([one.calls.times, two.calls.times]).toEqual([1, 1]);
});
