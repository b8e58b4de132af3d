/**
 * Checks which server answers and whether it accepts us. Sends no secret before the server has
 * proven its identity.
 */
import { createPublicKey, randomBytes, verify } from 'node:crypto';
import { continuityOf, isTaskKeys } from '../contract/agent/task-key-chain.ts';
import { canonicalJson } from '../contract/canonical-json.ts';
import type { Checkup, LayerCheck, Ping } from '../contract/supervision/checkup.ts';
import { ask, type Heard, type Question, stranger } from './ask.ts';
import { type Found, failed, type Outcome, type Patient, skipped, well } from './examination.ts';

/** A test compares these with the route table, which cannot be bundled into the agent. */
export const doctorCalls = {
  'health-get': '/healthz',
  'session-get': '/v1/session',
  'node-checkup': '/v1/nodes/{id}/checkup',
  'node-ping': '/v1/nodes/{id}/ping',
  'node-ping-get': '/v1/nodes/{id}/ping/{task_id}',
  'agent-checkup': '/v1/agent/checkup',
  'agent-ping': '/v1/agent/ping',
  'agent-ping-get': '/v1/agent/ping/{task_id}',
} as const;

const address = (name: keyof typeof doctorCalls, params: Record<string, string> = {}) =>
  doctorCalls[name].replaceAll(/\{(\w+)\}/g, (_, key: string) => encodeURIComponent(params[key] ?? ''));

interface Identity {
  service: string;
  installation_id: string;
  nonce: string;
  public_key: string;
  signature: string;
  other_keys?: unknown;
}

const isIdentity = (value: unknown): value is Identity =>
  typeof value === 'object' &&
  value !== null &&
  ['service', 'installation_id', 'nonce', 'public_key', 'signature'].every(
    (name) => typeof (value as Record<string, unknown>)[name] === 'string',
  );

/**
 * A fresh nonce must be signed: a cached page, or one that only looks like ours, cannot do that.
 */
function isSignedNow({ signature, ...said }: Identity, nonce: string): boolean {
  if (said.service !== 'slipway' || said.nonce !== nonce) return false;
  const key = Buffer.from(said.public_key, 'base64');
  try {
    const public_key = createPublicKey({ key, format: 'der', type: 'spki' });
    return verify(null, Buffer.from(canonicalJson(said)), public_key, Buffer.from(signature, 'base64'));
  } catch {
    // A malformed key counts as not signed.
    return false;
  }
}

/**
 * The server may have rotated its key: endorsements then lead from a known key to the present one.
 */
function continues(identity: Identity, known_keys: readonly string[]): boolean {
  if (known_keys.includes(identity.public_key)) return true;
  const { other_keys: others } = identity;
  const present: unknown[] = [identity];
  if (!isTaskKeys(present) || !present[0] || !isTaskKeys(others)) return false;
  const known = others.filter(({ public_key }) => known_keys.includes(public_key));
  return continuityOf(present[0], known, others) === 'proven';
}

export async function recognise(patient: Patient): Promise<Outcome> {
  const nonce = randomBytes(16).toString('hex');
  const heard = await ask(patient, { method: 'GET', path: `${address('health-get')}?nonce=${nonce}` });
  if ('outcome' in heard) return heard.outcome;
  const { identity, version } = heard.body;
  if (!isIdentity(identity) || !isSignedNow(identity, nonce)) return stranger(200, JSON.stringify(heard.body));
  if (patient.known_keys && !continues(identity, patient.known_keys))
    return failed(
      'ingress_other_installation',
      `${identity.installation_id} answers, which is not the installation that this machine enrolled with`,
    );
  return well(`Slipway ${version} answers, installation ${identity.installation_id}`);
}

const bearerOf = ({ caller }: Patient) => (caller.kind === 'agent' ? caller.credential : caller.token);
const put = (patient: Patient, question: Omit<Question, 'bearer'>, wait_seconds = 0): Promise<Heard> =>
  ask(patient, { ...question, bearer: bearerOf(patient) }, wait_seconds);

/** A proxy may answer in place of the server on some paths. */
const isJudged = ({ checks }: Record<string, unknown>): boolean => Array.isArray(checks);

/** Turns a check by the server into an outcome. */
const outcomeOf = (check: LayerCheck | undefined): Outcome => {
  if (!check) return skipped('the server did not say');
  if (check.ok === null) return skipped(check.detail);
  if (check.ok) return well(check.detail);
  return {
    state: 'failed',
    code: check.code ?? '',
    says: check.detail,
    ...(check.owner_layer && { owner_layer: check.owner_layer }),
    ...(check.detail_layer && { detail_layer: check.detail_layer }),
  };
};

const judged = (answer: { checks: LayerCheck[] } | null, layer: LayerCheck['layer']): Outcome =>
  outcomeOf(answer?.checks.find((check) => check.layer === layer));

export async function showCredential(patient: Patient, found: Found): Promise<Outcome> {
  const { caller } = patient;
  if (caller.kind === 'agent' && caller.credential === null)
    return failed('agent_not_enrolled', 'the agent of this directory has no credential');
  if (caller.kind === 'person') {
    const session = await put(patient, { method: 'GET', path: address('session-get') });
    if ('outcome' in session) return session.outcome;
    const { name, role } = session.body;
    if (caller.node_id === null) return well(`the token is known: ${name}, ${role}`);
  }
  const path =
    caller.kind === 'agent' ? address('agent-checkup') : address('node-checkup', { id: caller.node_id ?? '' });
  const heard = await put(patient, { method: 'GET', path });
  if ('outcome' in heard) return heard.outcome;
  if (!isJudged(heard.body)) return stranger(200, JSON.stringify(heard.body));
  found.checkup = heard.body as unknown as Checkup;
  return judged(found.checkup, 'credential');
}

export const passFence = async (_: Patient, { checkup }: Found): Promise<Outcome> => judged(checkup, 'fence');
export const beHeard = async (_: Patient, { checkup }: Found): Promise<Outcome> => judged(checkup, 'heartbeat');

/** Not a failure of any layer: the caller may not request a ping, or the machine has no agent. */
const pingNotPossible = ['role_insufficient', 'scope_insufficient', 'no_agent'];

/** How long the server may hold one poll; proxies cut longer ones. */
const pollSeconds = 5;

/** Polls the ping until the layer can be judged. */
async function follow(patient: Patient, found: Found, layer: 'claim' | 'result'): Promise<Outcome> {
  const { caller } = patient;
  const isOpen = () => found.ping?.checks.some((check) => check.layer === layer && check.ok === null) ?? false;
  while (found.ping && isOpen() && !patient.signal.aborted) {
    const { task_id } = found.ping;
    const at =
      caller.kind === 'agent'
        ? address('agent-ping-get', { task_id })
        : address('node-ping-get', { id: caller.node_id ?? '', task_id });
    const heard = await put(patient, { method: 'GET', path: `${at}?wait=${pollSeconds}` }, pollSeconds);
    if ('outcome' in heard) return heard.outcome;
    if (!isJudged(heard.body)) return stranger(200, JSON.stringify(heard.body));
    found.ping = heard.body as unknown as Ping;
  }
  return judged(found.ping, layer);
}

export async function beClaimed(patient: Patient, found: Found): Promise<Outcome> {
  const { caller, patience_seconds: within_seconds } = patient;
  const path = caller.kind === 'agent' ? address('agent-ping') : address('node-ping', { id: caller.node_id ?? '' });
  const heard = await put(patient, { method: 'POST', path, body: { within_seconds } });
  if ('outcome' in heard) {
    const { outcome } = heard;
    const barred = outcome.state === 'failed' && pingNotPossible.includes(outcome.code);
    return barred ? skipped(`no ping was requested: ${outcome.says}`) : outcome;
  }
  if (!isJudged(heard.body)) return stranger(202, JSON.stringify(heard.body));
  found.ping = heard.body as unknown as Ping;
  return follow(patient, found, 'claim');
}

export const beAnswered = (patient: Patient, found: Found): Promise<Outcome> =>
  found.ping ? follow(patient, found, 'result') : Promise.resolve(skipped('no ping was requested'));
