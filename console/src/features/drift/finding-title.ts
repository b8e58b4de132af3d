/** The title of a finding. Separate, to keep the table of findings out of the first chunk. Pure. */
import type { Finding } from '../../../../src/contract/supervision/finding.ts';
import { findingCatalogue } from '../../../../src/lifecycle/findings/findings.ts';
import { withLocalTimes } from '../../ui/time/times.ts';

/** Slower boots take several sentences to explain; every other finding is one. */
export const titleAndDetail = ({ kind, what, says }: Pick<Finding, 'kind' | 'what' | 'says'>) =>
  kind === 'boot-shift'
    ? { title: findingCatalogue[what].says, detail: withLocalTimes(says) }
    : { title: withLocalTimes(says), detail: null };
