/** The agent's calls find whichever address of the control plane answers. */
import { expect, test } from 'vitest';
import { anyServer } from './any-server.ts';
import type { Answer, Call, Transport } from './transport.ts';

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

/** A server that answers as it is told; null: nobody is there. */
function server(status: number | null) {
  const asked = { times: 0, status };
  const transport: Transport = {
    async call<T>(_: Call, read: (body: unknown) => T | null): Promise<Answer<T>> {
      asked.times++;
      const body = read({});
      if (asked.status === 200 && body !== null) return { ok: true, status: 200, body };
      return { ok: false, failure: { ...failure, status: asked.status } };
    },
    interruptions: () => 0,
    close() {},
  };
  return { asked, transport };
}

const read = () => true;

test('a dead address is passed over, and the one that answered is asked first from then on', async () => {
  const [dead, alive] = [server(null), server(200)];
  const http = anyServer([dead.transport, alive.transport]);
  expect(await http.call(call, read)).toMatchObject({ ok: true });
  expect(await http.call(call, read)).toMatchObject({ ok: true });
  expect([dead.asked.times, alive.asked.times]).toEqual([1, 2]);
  alive.asked.status = null;
  dead.asked.status = 200;
  expect(await http.call(call, read)).toMatchObject({ ok: true });
});

test('a refusal is an answer, and nobody else is asked', async () => {
  const [refusing, other] = [server(403), server(200)];
  const http = anyServer([refusing.transport, other.transport]);
  expect(await http.call(call, read)).toMatchObject({ ok: false, failure: { status: 403 } });
  expect(other.asked.times).toBe(0);
});

test('when nobody answers, each was asked once and the failure is told', async () => {
  const [one, two] = [server(null), server(null)];
  const http = anyServer([one.transport, two.transport]);
  expect(await http.call(call, read)).toMatchObject({ ok: false, failure: { status: null } });
  expect([one.asked.times, two.asked.times]).toEqual([1, 1]);
});
