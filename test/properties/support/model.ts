/**
 * A second copy of the specification's model, as far as the invariants need it. The product's own
 * tables are not used here, because a wrong entry in them would then pass its own check.
 */

const liveStatuses = 'provisioning starting ready degraded offline failed draining cleaning quarantined';
const allExcept = (status: string) => liveStatuses.replace(status, '').trim();

/** Each line reads `from … > to by cause …`, like a line of the model's tables. */
const nodeLines = `
new > provisioning by node-provision node-create join
provisioning > starting by registration ensured
provisioning > failed by provision-deadline provision-error
starting > ready by claim-ready stuck-starting probe-promotes upstream-ready
starting > failed by start-deadline prerequisite-missing
failed > starting by late-registration
failed > provisioning by retry re-enroll
failed > cleaning by rescue-over
ready > degraded by degraded liveness
degraded > ready by degraded heartbeat-returned
ready degraded > offline by liveness goodbye
offline > ready by heartbeat-returned
offline > degraded by heartbeat-returned
offline > failed by offline-deadline
ready degraded offline > draining by drain
draining > ready by undrain
draining > quarantined by drained drain-deadline
draining > cleaning by drained drain-deadline
${allExcept('cleaning')} > cleaning by release reimage retire
starting ready degraded offline quarantined > cleaning by drift
cleaning > ready by proof
cleaning > provisioning by proof
cleaning > retired by proof
quarantined > retired by proof
cleaning > quarantined by clean-deadline clean-error force-release
${allExcept('quarantined')} > quarantined by quarantine drift
quarantined > starting by reactivate
quarantined > provisioning by re-enroll
offline > provisioning by re-enroll`;

const allocationLines = `
new > requested by allocation-create
requested > provisioning by node-assigned
requested > failed by queue-deadline provision-error
provisioning > active by node-ready
provisioning > failed by node-failed node-lost
failed > provisioning by rescue retry
active > failed by node-lost
requested provisioning active failed > releasing by release
releasing > released by proof force-release
releasing > release_failed by release-deadline
release_failed > releasing by release-retry release
release_failed > released by force-release`;

export interface ModelEdge {
  entity: 'node' | 'allocation';
  from: string;
  to: string;
  by: string;
}

const parseEdges = (entity: ModelEdge['entity'], lines: string): ModelEdge[] =>
  lines
    .trim()
    .split('\n')
    .flatMap((line) => {
      const [, sources = '', to = '', causes = ''] = /^(.+) > (\S+) by (.+)$/.exec(line) ?? [];
      return sources
        .split(/\s+/)
        .flatMap((from) => causes.split(' ').map((by): ModelEdge => ({ entity, from, to, by })));
    });

export const modelEdges: ModelEdge[] = [...parseEdges('node', nodeLines), ...parseEdges('allocation', allocationLines)];

export const statusesWithDeadline = {
  node: ['provisioning', 'starting', 'offline', 'failed', 'draining', 'cleaning'],
  allocation: ['requested', 'provisioning', 'releasing', 'failed'],
};

/** Rules whose changes are verdicts; the changed row records the verdict. */
export const verdictRules = [
  'provision-deadline',
  'provision-error',
  'late-registration',
  'rescue-over',
  'stuck-starting',
  'start-deadline',
  'prerequisite-missing',
  'probe-promotes',
  'liveness',
  'goodbye',
  'offline-deadline',
  'drain-deadline',
  'queue-deadline',
  'clean-deadline',
  'clean-error',
  'degraded',
  'drift',
  'node-failed',
  'node-lost',
  'release-deadline',
  'release-retry',
];

/** Rules with negative verdicts; a maintenance window holds these verdicts. */
export const negativeRules = [
  'provision-deadline',
  'start-deadline',
  'liveness',
  'offline-deadline',
  'rescue-over',
  'drain-deadline',
  'clean-deadline',
];

/** Rules that judge the row's own deadline. */
export const deadlineRules = [
  'provision-deadline',
  'start-deadline',
  'stuck-starting',
  'offline-deadline',
  'drain-deadline',
  'clean-deadline',
  'rescue-over',
];

/**
 * Rules that only record their verdict in an observe-only pool. Rules that finish a person's
 * request still change the row.
 */
export const observeOnlyRules = [
  ...negativeRules.filter((rule) => rule !== 'clean-deadline' && rule !== 'drain-deadline'),
  'stuck-starting',
  'probe-promotes',
  'degraded',
  'prerequisite-missing',
];

/** Causes that a machine's own requests bring about. */
export const machineCauses = [
  'join',
  'registration',
  'claim-ready',
  'late-registration',
  'goodbye',
  'heartbeat-returned',
  'degraded',
];
