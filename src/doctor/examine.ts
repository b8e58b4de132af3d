/**
 * Runs the examination over a table of layers. Each layer depends on those before it, so the
 * examination stops at the first failure. The CLI, the agent and the tests all call `examine`.
 */
import { findError } from '../contract/errors/find-error.ts';
import type { DoctorTarget, ExaminationState, LayerName, LayerReport, Outcome } from './examination.ts';
import { skip } from './examination.ts';
import { checkCertificate, checkDns, checkTcp, checkTlsHandshake } from './path-checks.ts';
import {
  checkCredential,
  checkFence,
  checkHeartbeat,
  checkServerIdentity,
  checkTaskClaim,
  checkTaskResult,
} from './server-checks.ts';

interface Layer {
  layer: LayerName;
  needs?: keyof typeof skipReasons;
  check(target: DoctorTarget, state: ExaminationState): Promise<Outcome>;
}

/** Each function returns why to skip a layer, or null if the layer applies. */
const skipReasons = {
  tls: ({ url }: DoctorTarget) => (url.protocol === 'https:' ? null : 'the URL uses plain HTTP'),
  node: ({ caller }: DoctorTarget) =>
    caller.kind === 'person' && caller.node_id === null ? 'you named no node' : null,
};

export const layers: readonly Layer[] = [
  { layer: 'dns', check: checkDns },
  { layer: 'tcp', check: checkTcp },
  { layer: 'tls', needs: 'tls', check: checkTlsHandshake },
  { layer: 'ca', needs: 'tls', check: checkCertificate },
  { layer: 'ingress', check: checkServerIdentity },
  { layer: 'credential', check: checkCredential },
  { layer: 'fence', needs: 'node', check: checkFence },
  { layer: 'heartbeat', needs: 'node', check: checkHeartbeat },
  { layer: 'claim', needs: 'node', check: checkTaskClaim },
  { layer: 'result', needs: 'node', check: checkTaskResult },
];

/** These remedies replace those of the catalogue, because they can refer to the caller. */
const callerRemedies: Record<DoctorTarget['caller']['kind'], Record<string, string>> = {
  person: { node_not_found: 'List the nodes: `slipway nodes --all`.' },
  agent: {
    heartbeat_stale:
      'The path to the server works, so the agent is not running or hangs. Check its process and its log on this machine, then restart it.',
  },
};

function remedyOf(code: string, caller: DoctorTarget['caller']): string | null {
  const remedy = callerRemedies[caller.kind][code] ?? findError(code)?.remedy ?? null;
  return caller.kind === 'person' && caller.node_id !== null
    ? (remedy?.replaceAll(' ID`', ` ${caller.node_id}\``) ?? null)
    : remedy;
}

function reportOf(layer: LayerName, outcome: Outcome, seconds: number, caller: DoctorTarget['caller']): LayerReport {
  const { state, says } = outcome;
  const noFailure = { code: null, title: null, owner_layer: null, detail_layer: null, remedy: null };
  if (outcome.state !== 'failed') return { layer, state, says, ...noFailure, seconds };
  const { code } = outcome;
  const entry = findError(code);
  const owner_layer = outcome.owner_layer ?? entry?.owner_layer ?? null;
  // The server may name a layer behind the examined one, such as its database.
  const detail_layer = outcome.detail_layer ?? entry?.detail_layer ?? owner_layer ?? layer;
  const title = entry?.title ?? null;
  const remedy = remedyOf(code, caller);
  return { layer: detail_layer, state, says, code, title, owner_layer, detail_layer, remedy, seconds };
}

export async function* examine(target: DoctorTarget, table: readonly Layer[] = layers): AsyncGenerator<LayerReport> {
  const state: ExaminationState = { addresses: [], address: null, distrust: null, checkup: null, ping: null };
  for (const { layer, needs, check } of table) {
    const startedMs = target.clock.monotonicMs();
    const skipReason = needs ? skipReasons[needs](target) : null;
    const outcome = skipReason === null ? await check(target, state) : skip(skipReason);
    if (target.signal.aborted) return;
    const seconds = Math.round(target.clock.monotonicMs() - startedMs) / 1000;
    yield reportOf(layer, outcome, seconds, target.caller);
    if (outcome.state === 'failed') return;
  }
}
