/** Tests that only an agent with its instance's key gets a new credential by join token. */
import { generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type TestStore, testStore } from '../../../../test/support/store.ts';
import { secondsLater } from '../../../base/clock.ts';
import { newCorrelationId, newTokenId } from '../../../base/ids.ts';
import { keyProofBody } from '../../../contract/agent/key-proof.ts';
import { canonicalJson } from '../../../contract/canonical-json.ts';
import { ApiProblem } from '../../../contract/errors/errors.ts';
import { type Installation, openInstallation } from '../../keys/installation.ts';
import type { Database } from '../../pg/database.ts';
import { createJoinToken } from '../../rows/tokens.ts';
import { type Fleet, readAllocationRow, readNodeRow, testFleet } from '../../testing/fleet.ts';
import { fenceInstance, type InstanceRow, instanceByCredential } from '../instances.ts';
import { register } from '../register.ts';
import type { Registration } from '../registration-types.ts';

let store: TestStore;
let db: Database;
let fleet: Fleet;
let installation: Installation;

beforeAll(async () => {
  store = await testStore();
  db = store.db;
  fleet = await testFleet(db);
  installation = await openInstallation(db, fleet.now());
});
afterAll(() => store.close());

interface Keys {
  private_key: KeyObject;
  public_key: string;
}
const newKeys = (): Keys => {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519');
  return { private_key: privateKey, public_key: publicKey.export({ type: 'spki', format: 'der' }).toString('base64') };
};

const signProof = (
  { private_key, public_key }: Keys,
  facts: { name: string; join_token: string; base_url?: string },
  at: Date,
) => {
  const signed_at = at.toISOString();
  const body = keyProofBody({ ...facts, agent_public_key: public_key, signed_at });
  return { signed_at, signature: sign(null, Buffer.from(canonicalJson(body)), private_key).toString('base64') };
};

async function newJoinToken(max_uses: number | null = null): Promise<string> {
  const token_id = newTokenId(fleet.clock);
  const token = { token_id, pool: 'test', expires_at: null, max_uses, created_at: fleet.now() };
  await createJoinToken(db, token, `swj_${token_id}`);
  return `swj_${token_id}`;
}

type Request = Parameters<typeof register>[1];
const attempt = (
  request: Omit<Request, 'version'>,
  at = fleet.now(),
  instance?: InstanceRow,
): Promise<Registration | string> => {
  const { clock, environment } = fleet;
  const context = { clock, now: at, environment, installation, correlation_id: newCorrelationId() };
  return register(db, { version: '1.0', ...request }, instance, context).catch((error: unknown) => {
    if (error instanceof ApiProblem) return error.code;
    throw error;
  });
};

async function joinAndReady(keys: Keys, max_uses: number | null = null) {
  const join_token = await newJoinToken(max_uses);
  const name = `keyed-${newTokenId(fleet.clock).slice(-8)}`;
  const first = await attempt({ join_token, name, agent_public_key: keys.public_key });
  if (typeof first === 'string') throw new Error(`the registration was refused: ${first}`);
  await fleet.move({ node_id: first.node_id, to: 'ready', by: 'claim-ready', reason: 'up' });
  return { join_token, name, first, agent_public_key: keys.public_key };
}

test('issues a new credential to an agent that proves its key, and keeps instance and allocation', async () => {
  const keys = newKeys();
  const { first, ...request } = await joinAndReady(keys, 1);
  const held = await fleet.allocation('active', await readNodeRow(db, first.node_id));
  expect(await attempt({ ...request, agent_public_key: newKeys().public_key })).toBe('join_token_spent');
  const again = await attempt({ ...request, key_proof: signProof(keys, request, fleet.now()) });
  expect(again).toMatchObject({ node_instance_id: first.node_instance_id, first: false });
  const { credential = '' } = again as Registration;
  expect((await instanceByCredential(db, credential, fleet.now()))?.node_instance_id).toBe(first.node_instance_id);
  expect(await instanceByCredential(db, first.credential ?? '', fleet.now())).toBeUndefined();
  expect(await readNodeRow(db, first.node_id)).toMatchObject({ status: 'ready', restarts: 1 });
  expect((await readAllocationRow(db, held.allocation_id)).status).toBe('active');
});

test('rescues a failed node and its allocation by a key proof within the rescue window', async () => {
  const keys = newKeys();
  const { first, ...request } = await joinAndReady(keys);
  const held = await fleet.allocation('active', await readNodeRow(db, first.node_id));
  await fleet.move({ node_id: first.node_id, to: 'offline', by: 'liveness', reason: 'silent' });
  await fleet.move({ node_id: first.node_id, to: 'failed', by: 'offline-deadline', reason: 'gone for long' });
  expect(await attempt({ ...request, key_proof: signProof(keys, request, fleet.now()) })).toMatchObject({
    first: false,
  });
  expect((await readNodeRow(db, first.node_id)).status).toBe('starting');
  expect((await readAllocationRow(db, held.allocation_id)).status).toBe('provisioning');
});

test('accepts a proof once, within 300 s, and only for its name, token and address', async () => {
  const keys = newKeys();
  const { first, ...request } = await joinAndReady(keys);
  await fleet.move({ node_id: first.node_id, to: 'offline', by: 'liveness', reason: 'silent' });
  const other = await joinAndReady(newKeys());
  const now = fleet.now();
  const wrongRequests = {
    'of another key': { ...request, key_proof: signProof(newKeys(), request, now) },
    'of another key, sent with the stored key': {
      ...request,
      key_proof: signProof({ ...newKeys(), public_key: keys.public_key }, request, now),
    },
    'for another name': { ...request, key_proof: signProof(keys, { ...request, name: other.name }, now) },
    'for another token': { ...request, key_proof: signProof(keys, { ...request, join_token: other.join_token }, now) },
    'for another address': { ...request, base_url: 'http://10.0.0.1', key_proof: signProof(keys, request, now) },
    'too old': { ...request, key_proof: signProof(keys, request, secondsLater(now, -301)) },
    'ahead of time': { ...request, key_proof: signProof(keys, request, secondsLater(now, 301)) },
  };
  for (const [title, wrongRequest] of Object.entries(wrongRequests))
    expect(await attempt(wrongRequest, now), title).toBe('identity_unproven');
  const key_proof = signProof(keys, request, now);
  expect(await attempt({ ...request, key_proof }, now)).toMatchObject({ first: false });
  expect(await attempt({ ...request, key_proof }, now), 'replayed').toBe('identity_unproven');
});

test('accepts the last proven key while a newer key is unproven, and drops the newer key', async () => {
  const keys = newKeys();
  const { first, ...request } = await joinAndReady(keys);
  const stranger = newKeys();
  const instance = await instanceByCredential(db, first.credential ?? '', fleet.now());
  await attempt({ agent_public_key: stranger.public_key }, fleet.now(), instance);
  await fleet.move({ node_id: first.node_id, to: 'offline', by: 'liveness', reason: 'silent' });
  const strangerRequest = { ...request, agent_public_key: stranger.public_key };
  const now = fleet.now();
  expect(await attempt({ ...strangerRequest, key_proof: signProof(stranger, request, now) }, now)).toBe(
    'identity_unproven',
  );
  expect(await attempt({ ...strangerRequest, key_proof: signProof(keys, request, now) }, now)).toBe(
    'identity_unproven',
  );
  expect(await attempt({ ...request, key_proof: signProof(keys, request, now) }, now)).toMatchObject({ first: false });
  const [row] = await db.query(
    'select agent_public_key, key_unproven_since from instances where node_instance_id = $1',
    [first.node_instance_id],
  );
  expect(row).toEqual({ agent_public_key: keys.public_key, key_unproven_since: null });
});

test('refuses the key proof of a fenced instance', async () => {
  const keys = newKeys();
  const { first, ...request } = await joinAndReady(keys);
  await fleet.move({ node_id: first.node_id, to: 'offline', by: 'liveness', reason: 'silent' });
  await db.transaction((tx) =>
    fenceInstance(tx, first.node_instance_id, { reason: 'replaced', revoke: true }, fleet.now()),
  );
  expect(await attempt({ ...request, key_proof: signProof(keys, request, fleet.now()) })).toBe('identity_unproven');
});

test('resolves the finding `name_contested` when the machine proves its key', async () => {
  const keys = newKeys();
  const { first, ...request } = await joinAndReady(keys);
  await fleet.move({ node_id: first.node_id, to: 'offline', by: 'liveness', reason: 'silent' });
  const status = async () =>
    (await db.query<{ status: string }>('select status from findings where subject = $1', [first.node_id]))[0]?.status;
  expect(await attempt(request)).toBe('identity_unproven');
  expect(await status(), 'no finding yet: a request with the stored key but no proof may be a retry').toBeUndefined();
  expect(await attempt({ ...request, agent_public_key: newKeys().public_key })).toBe('identity_unproven');
  expect(await status()).toBe('open');
  await attempt({ ...request, key_proof: signProof(keys, request, fleet.now()) });
  expect(await status()).toBe('resolved');
});
