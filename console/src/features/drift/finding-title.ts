/**
 * The title of a finding. In a file of its own, so that the catalogue of findings is not loaded
 * with the first page. Pure.
 */
import type { Finding } from '../../../../src/contract/supervision/finding.ts';
import { findingCatalogue } from '../../../../src/lifecycle/findings/findings.ts';
import { withLocalTimes } from '../../ui/time/times.ts';

/** Slower boots take several sentences to explain; every other finding is one sentence. */
export const titleAndDetail = ({ kind, what, says }: Pick<Finding, 'kind' | 'what' | 'says'>) =>
  kind === 'boot-shift'
    ? { title: findingCatalogue[what].says, detail: withLocalTimes(says) }
    : { title: withLocalTimes(says), detail: null };
