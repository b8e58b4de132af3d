/** Explains what a machine waits for, what happens next, and when. */
import { type RepeatedFailure, repeatedFailureWords } from '../actions/order-offers.ts';
import { earliestReturnAt, staleAt } from '../deadlines/liveness.ts';
import { refusedBeatsWords } from '../findings/refused-beats.ts';
import { degradedFrom, mayBeReady, readyBelow } from '../model/reports.ts';
import { isObserveOnly } from '../model/rules.ts';
import type { NodeStatus } from '../model/states.ts';
import { causes } from '../model/transitions.ts';
import { agentlessExplainers } from './explain-agentless.ts';
import {
  byRule,
  type ExplainedNode,
  type ExplainFacts,
  type Explanation,
  type Holder,
  type NextStep,
} from './explanation.ts';

type Explainer = (facts: ExplainFacts) => Explanation;

/** Uses the function that the liveness rule uses, so the displayed time is exact. */
const silenceTime = ({ node, gap_end }: ExplainFacts): Date | null =>
  node.last_seen_at && node.stale_seconds !== null ? staleAt({ ...node, probe_ok_at: null, gap_end }) : null;

const formatShare = (rate: number) => `${rate * 100} %`;

const provisioning: Explainer = ({ node, operation }) =>
  node.waiting_for === 'capacity'
    ? {
        waiting_for: 'the provider to grant capacity; its boot budget is paused',
        next: [
          { if: 'the provider grants capacity', leads_to: 'its boot budget starts', at: null },
          { if: 'the provider grants none by then', ...byRule('failed', 'provision-deadline'), at: node.deadline_at },
        ],
      }
    : {
        waiting_for: operation ?? 'its agent to register',
        next: [
          { if: 'its agent registers', leads_to: 'starting', at: null },
          { if: 'it has not registered by then', ...byRule('failed', 'provision-deadline'), at: node.deadline_at },
        ],
      };

const starting: Explainer = ({ node }) =>
  mayBeReady(node.prerequisites)
    ? {
        waiting_for: 'the machine to report ready',
        next: [
          { if: 'it reports ready or answers a probe', leads_to: 'ready', at: null },
          { if: 'it still sends heartbeats then', ...byRule('ready', 'stuck-starting'), at: node.deadline_at },
          { if: 'it is silent then', ...byRule('failed', 'start-deadline'), at: node.deadline_at },
        ],
      }
    : {
        waiting_for: 'its prerequisites to be checked and met',
        next: [
          { if: 'they are met and it reports ready or answers a probe', leads_to: 'ready', at: null },
          { if: 'one is missing', ...byRule('failed', 'prerequisite-missing'), at: null },
          { if: 'they are not met by then', ...byRule('failed', 'start-deadline'), at: node.deadline_at },
        ],
      };

const silenceStep = (facts: ExplainFacts): NextStep => ({
  if: 'no heartbeat arrives by then',
  ...byRule('offline', 'liveness', ' (degraded if it answers a probe)'),
  at: silenceTime(facts),
});

const ready: Explainer = (facts) => ({
  waiting_for: null,
  next: [
    { if: `${formatShare(degradedFrom)} of its work fails`, leads_to: 'degraded', at: null, by: 'degraded' },
    silenceStep(facts),
  ],
});

const degraded: Explainer = (facts) => ({
  waiting_for:
    facts.node.verdict?.rule === 'liveness' ? 'its heartbeat; it answers only probes' : 'its error rate to drop',
  next: [
    facts.node.verdict?.rule === 'liveness'
      ? { if: 'its heartbeats resume', leads_to: 'ready', at: null }
      : {
          if: `it reports ready, or less than ${formatShare(readyBelow)} of its work fails`,
          leads_to: 'ready',
          at: null,
          by: 'degraded',
        },
    silenceStep(facts),
  ],
});

/**
 * When a machine that fell silent, and now sends heartbeats again, returns to service. Null for any
 * other machine.
 */
const returnTime = ({ verdict, last_seen_at, status_since, stale_seconds }: ExplainedNode): Date | null =>
  verdict?.rule === 'liveness' && last_seen_at && last_seen_at > status_since && stale_seconds !== null
    ? earliestReturnAt(status_since, stale_seconds)
    : null;

const offline: Explainer = ({ node }) => {
  const at = returnTime(node);
  const failure = { ...byRule('failed', 'offline-deadline'), at: node.deadline_at };
  return at
    ? {
        waiting_for: 'its stale time to pass: its heartbeats have resumed, and it returns after that',
        next: [
          { if: 'it still sends heartbeats then', leads_to: 'its former status', at },
          { if: 'it falls silent again until then', ...failure },
        ],
      }
    : {
        waiting_for: 'a heartbeat',
        next: [
          { if: 'its heartbeats resume', leads_to: 'its former status', at: null },
          { if: 'it stays silent until then', ...failure },
        ],
      };
};

const rescueEndStep = (condition: string, { deadline_at }: ExplainedNode): NextStep => ({
  if: condition,
  ...byRule('cleaning', 'rescue-over', ': destroyed, with proof'),
  at: deadline_at,
});

/**
 * After a failed launch the machine may still run until the rescue window ends, so the text does
 * not say that the machine has ended.
 */
export const endWords = (verdict: ExplainedNode['verdict']): string =>
  verdict?.rule === 'provision-error' ? 'its launch failed for good' : 'it has ended';

const explainEnded: Explainer = ({ node, holder }) => ({
  waiting_for: `a person${holder ? ' to retry it' : ''}, or the end of its rescue window; ${endWords(node.verdict)}, so waiting does not help`,
  next: [rescueEndStep(holder ? 'it is not retried before then' : 'no action is taken before then', node)],
});

const explainRescuable: Explainer = ({ node }) => ({
  waiting_for: 'the end of its rescue window, or a sign of life',
  next: [
    {
      if: 'it registers or sends a heartbeat before then',
      leads_to: 'starting, rescued by late-registration',
      at: null,
    },
    rescueEndStep('it does not', node),
  ],
});

const changePoolWords = (repeated: RepeatedFailure) =>
  `a change of pool ${repeated.pool}: ${repeatedFailureWords(repeated)}, and a retry would most likely fail too. Fix its set-up, image or budget, apply the pool, then retry`;

const failed: Explainer = (facts) => {
  const explanation = (facts.node.verdict?.certain ? explainEnded : explainRescuable)(facts);
  return facts.repeated ? { ...explanation, waiting_for: changePoolWords(facts.repeated) } : explanation;
};

const draining: Explainer = ({ node }) => ({
  waiting_for: 'running work to end',
  next: [
    { if: 'it is empty', leads_to: 'quarantined or retired, as requested', at: null },
    { if: 'it is not empty by then', ...byRule('quarantined or retired', 'drain-deadline'), at: node.deadline_at },
  ],
});

const outcomeAfterProof = ({ anew, reuse }: ExplainFacts) => {
  if (anew) return 'provisioning, as a new instance';
  return reuse ? 'ready and free' : 'retired';
};

const isReleaseFailed = (holder: Holder | null): holder is Holder => holder?.status === 'release_failed';

/** Whether a release runs the cleanup. An allocation in another status does not own the cleanup. */
const isCleanedByRelease = ({ holder }: ExplainFacts) => holder?.status === 'releasing' || isReleaseFailed(holder);

const tryOf = ({ release_tries }: Holder) => `try ${release_tries + 1}`;

const retryStep = (holder: Holder): NextStep => ({
  if: 'its release is not retried before then',
  leads_to: `its release is retried (${tryOf(holder)})`,
  at: holder.retry_at,
});

const explainFailedRelease = (facts: ExplainFacts, holder: Holder): Explanation => ({
  waiting_for: `${tryOf(holder)} of its release: ${holder.reason ?? 'the last one failed'}`,
  next: [{ if: 'a try ends with proof', leads_to: outcomeAfterProof(facts), at: null }],
});

const explainCleanup: Explainer = (facts) => ({
  waiting_for: facts.operation ?? 'the proof that nothing is left',
  next: [
    { if: 'the proof is complete', leads_to: outcomeAfterProof(facts), at: null },
    {
      if: 'it takes longer than that',
      ...(isCleanedByRelease(facts)
        ? { leads_to: 'its allocation is release_failed and its release is retried' }
        : byRule('quarantined', 'clean-deadline')),
      at: facts.node.deadline_at,
    },
  ],
});

const cleaning: Explainer = (facts) =>
  isReleaseFailed(facts.holder) ? explainFailedRelease(facts, facts.holder) : explainCleanup(facts);

const nameOf = ({ allocation_id, name }: Holder) => (name ? `${allocation_id} (${name})` : allocation_id);

/** Failed and released allocations no longer use the machine. */
const isUsing = ({ status }: Holder) => status !== 'failed' && status !== 'released';

/** A quarantined machine can return to its active allocation, but not to one in another status. */
const holderWords = (holder: Holder, reuse: boolean) => {
  const warning = reuse ? '' : ', which destroys the machine in this pool';
  return holder.status === 'active'
    ? `${nameOf(holder)} still uses it: reactivate the machine to serve the allocation again, or release the allocation before you reimage or retire the machine${warning}`
    : `${nameOf(holder)} still uses it and must be released first${warning}`;
};

/** The advice for a machine that a forced release quarantined and whose residue is settled. */
export const settledAfterForceWords = 'released by force; its residue is settled, so you can reactivate or retire it';

const quarantined: Explainer = ({ node, holder, residue, reuse }) => ({
  waiting_for: [
    'a person to decide',
    ...(node.verdict?.rule === 'force-release' && residue.length === 0 ? [settledAfterForceWords] : []),
    ...(holder && isUsing(holder) ? [holderWords(holder, reuse)] : []),
    ...(residue.length > 0 ? [`on the residue ledger: ${residue.join(', ')}`] : []),
  ].join('; '),
  next: [],
});
const retired: Explainer = () => ({ waiting_for: null, next: [] });

const explainers: Record<NodeStatus, Explainer> = {
  provisioning,
  starting,
  ready,
  degraded,
  offline,
  failed,
  draining,
  cleaning,
  quarantined,
  retired,
};

/**
 * In an observe-only pool most rules only record their verdicts, so their steps are hypothetical.
 */
function toHypothetical(step: NextStep): NextStep {
  if (!step.by || !isObserveOnly(step.by, causes[step.by].trigger, 'observe')) return step;
  return { ...step, leads_to: `would be ${step.leads_to}; the pool is observe-only` };
}

const statusesWithHeartbeats: readonly NodeStatus[] = ['starting', 'ready', 'degraded', 'offline', 'draining'];
/**
 * Whether heartbeats would help now. After a failure they help only while a rescue is possible, and
 * not after repeated failures, because these need a change of the pool.
 */
const needsHeartbeats = ({ node, repeated }: ExplainFacts): boolean =>
  node.status === 'failed' ? !node.verdict?.certain && !repeated : statusesWithHeartbeats.includes(node.status);

export function explain(facts: ExplainFacts): Explanation {
  const { node } = facts;
  const agentlessExplainer = facts.agentless && agentlessExplainers[node.status];
  const explanation = agentlessExplainer
    ? agentlessExplainer(facts, silenceTime(facts))
    : explainers[node.status](facts);
  const endOfHold = node.held && {
    if: `the hold ends (${node.held.reason})`,
    leads_to: `${node.held.rule} decides again`,
    at: new Date(node.held.held_until),
  };
  const refusalWords = facts.refused_beats && needsHeartbeats(facts) ? refusedBeatsWords(facts.refused_beats) : null;
  const retrySteps = isReleaseFailed(facts.holder) ? [retryStep(facts.holder)] : [];
  return {
    waiting_for: endOfHold ? `the end of a hold: ${node.held?.reason}` : (refusalWords ?? explanation.waiting_for),
    next: [
      ...(endOfHold ? [endOfHold] : []),
      ...retrySteps,
      ...(facts.observe_only ? explanation.next.map(toHypothetical) : explanation.next),
    ],
  };
}
