/**
 * Runs the examination: a table of layers, each of which depends on those before it. It stops at
 * the first failure, because later layers could only fail too. The CLI, the agent and the tests all
 * call `examine`.
 */
import { findError } from '../contract/errors/find-error.ts';
import type { DoctorTarget, Found, LayerName, LayerReport, Outcome } from './examination.ts';
import { skipped } from './examination.ts';
import { agreeOnTls, openConnection, resolveName, trustCertificate } from './path-checks.ts';
import { beAnswered, beClaimed, beHeard, passFence, recognise, showCredential } from './server-checks.ts';

interface Layer {
  layer: LayerName;
  needs?: keyof typeof unmet;
  check(target: DoctorTarget, found: Found): Promise<Outcome>;
}

/** Returns why a layer does not apply, or null if it does. */
const unmet = {
  tls: ({ url }: DoctorTarget) => (url.protocol === 'https:' ? null : 'plain HTTP is used'),
  node: ({ caller }: DoctorTarget) =>
    caller.kind === 'person' && caller.node_id === null ? 'no node was named' : null,
};

export const layers: readonly Layer[] = [
  { layer: 'dns', check: resolveName },
  { layer: 'tcp', check: openConnection },
  { layer: 'tls', needs: 'tls', check: agreeOnTls },
  { layer: 'ca', needs: 'tls', check: trustCertificate },
  { layer: 'ingress', check: recognise },
  { layer: 'credential', check: showCredential },
  { layer: 'fence', needs: 'node', check: passFence },
  { layer: 'heartbeat', needs: 'node', check: beHeard },
  { layer: 'claim', needs: 'node', check: beClaimed },
  { layer: 'result', needs: 'node', check: beAnswered },
];

/** Remedies that fit better than the catalogue's, because here the caller is known. */
const remediesHere: Record<DoctorTarget['caller']['kind'], Record<string, string>> = {
  person: { node_not_found: 'See which nodes there are: `slipway nodes --all`.' },
  agent: {
    heartbeat_stale:
      'The way from here to the server is well, so the agent does not run, or hangs: look at its process and its own log on this machine, and start it anew.',
  },
};

function remedyOf(code: string, caller: DoctorTarget['caller']): string | null {
  const remedy = remediesHere[caller.kind][code] ?? findError(code)?.remedy ?? null;
  return caller.kind === 'person' && caller.node_id !== null
    ? (remedy?.replaceAll(' ID`', ` ${caller.node_id}\``) ?? null)
    : remedy;
}

function reportOf(layer: LayerName, outcome: Outcome, seconds: number, caller: DoctorTarget['caller']): LayerReport {
  const { state, says } = outcome;
  const nothing = { code: null, title: null, owner_layer: null, detail_layer: null, remedy: null };
  if (outcome.state !== 'failed') return { layer, state, says, ...nothing, seconds };
  const { code } = outcome;
  const entry = findError(code);
  const owner_layer = outcome.owner_layer ?? entry?.owner_layer ?? null;
  // The server may name another layer than the one examined, such as its database.
  const detail_layer = outcome.detail_layer ?? entry?.detail_layer ?? owner_layer ?? layer;
  const title = entry?.title ?? null;
  const remedy = remedyOf(code, caller);
  return { layer: detail_layer, state, says, code, title, owner_layer, detail_layer, remedy, seconds };
}

export async function* examine(target: DoctorTarget, table: readonly Layer[] = layers): AsyncGenerator<LayerReport> {
  const found: Found = { addresses: [], address: null, distrust: null, checkup: null, ping: null };
  for (const { layer, needs, check } of table) {
    const began = target.clock.monotonicMs();
    const why_not = needs ? unmet[needs](target) : null;
    const outcome = why_not === null ? await check(target, found) : skipped(why_not);
    if (target.signal.aborted) return;
    const seconds = Math.round(target.clock.monotonicMs() - began) / 1000;
    yield reportOf(layer, outcome, seconds, target.caller);
    if (outcome.state === 'failed') return;
  }
}
