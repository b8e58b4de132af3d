/** Who answers, and how we stand with them: each layer asks for one thing more, and tells nothing secret to a stranger. */
import { createPublicKey, randomBytes, verify } from 'node:crypto';
import { continuityOf, isTaskKeys } from '../contract/agent/task-key-chain.ts';
import { canonicalJson } from '../contract/canonical-json.ts';
import type { Checkup, LayerCheck, Ping } from '../contract/supervision/checkup.ts';
import { ask, type Heard, type Question, stranger } from './ask.ts';
import { type Found, failed, type Outcome, type Patient, skipped, well } from './examination.ts';

/** A test compares these with the route table, which itself cannot be bundled into the agent. */
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

/** A page that was kept somewhere, or one that only looks like ours, cannot have signed what was just made up. */
function isSignedNow({ signature, ...said }: Identity, nonce: string): boolean {
  if (said.service !== 'slipway' || said.nonce !== nonce) return false;
  const key = Buffer.from(said.public_key, 'base64');
  try {
    const public_key = createPublicKey({ key, format: 'der', type: 'spki' });
    return verify(null, Buffer.from(canonicalJson(said)), public_key, Buffer.from(signature, 'base64'));
  } catch {
    // What is no key has signed nothing.
    return false;
  }
}

/** The key that signs may follow one that this machine knew: then the endorsements lead from one to the other. */
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

/** Something may stand in for the server on some of its addresses only. */
const isJudged = ({ checks }: Record<string, unknown>): boolean => Array.isArray(checks);

/** What the server judged, in the words of an examination. */
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

const judged = (told: { checks: LayerCheck[] } | null, layer: LayerCheck['layer']): Outcome =>
  outcomeOf(told?.checks.find((check) => check.layer === layer));

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

/** Who may look but not ask for a ping has not failed in any layer; nor has a machine that has nobody to answer one. */
const mayNotAsk = ['role_insufficient', 'scope_insufficient', 'no_agent'];

/** The server waits with us for so long at most; longer polls are cut by what stands between. */
const pollSeconds = 5;

/** Follows the ping until the layer can be judged. */
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
    const barred = outcome.state === 'failed' && mayNotAsk.includes(outcome.code);
    return barred ? skipped(`a ping was not asked for: ${outcome.says}`) : outcome;
  }
  if (!isJudged(heard.body)) return stranger(202, JSON.stringify(heard.body));
  found.ping = heard.body as unknown as Ping;
  return follow(patient, found, 'claim');
}

export const beAnswered = (patient: Patient, found: Found): Promise<Outcome> =>
  found.ping ? follow(patient, found, 'result') : Promise.resolve(skipped('no ping was asked for'));
