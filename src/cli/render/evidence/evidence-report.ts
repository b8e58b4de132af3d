/** Renders the result of verifying sealed evidence. */
import type { EvidenceFault } from '../../../contract/evidence/evidence-seals.ts';
import type { EvidenceReport } from '../../commands/evidence/verify-evidence.ts';
import { formatCount } from '../text/text.ts';

const faultText: Record<EvidenceFault['code'], (fault: EvidenceFault) => string> = {
  row_deleted: ({ cursor }) => `row ${cursor} was deleted`,
  row_changed: ({ cursor }) => `row ${cursor} was changed`,
  row_moved: ({ cursor, moved_to }) => `row ${cursor} was moved to ${moved_to}`,
  row_inserted: ({ cursor }) => `row ${cursor} was inserted later`,
  segment_changed: ({ cursor, until, checkpoint }) =>
    `rows ${cursor} to ${until}: rows and the list of checkpoint ${checkpoint} were changed together`,
  segment_list_changed: ({ cursor, until, checkpoint }) =>
    `rows ${cursor} to ${until} are intact, but the list of checkpoint ${checkpoint} was changed`,
  checkpoint_unreadable: ({ checkpoint }) => `checkpoint ${checkpoint ?? 1} is unreadable`,
  checkpoint_missing: ({ checkpoint, cursor, until }) =>
    `checkpoint ${checkpoint} is missing; rows after ${cursor} up to ${until} cannot be checked`,
  checkpoint_unsigned: ({ checkpoint }) => `checkpoint ${checkpoint} is not signed by a key you trust`,
  checkpoint_unlinked: ({ checkpoint }) => `checkpoint ${checkpoint} does not follow the one before it`,
  checkpoint_lost: ({ checkpoint }) => `checkpoint ${checkpoint} was replaced: a server has seen another one`,
  segment_unlinked: ({ checkpoint, cursor }) => `checkpoint ${checkpoint} does not continue the chain at row ${cursor}`,
  cut_incomplete: ({ checkpoint }) =>
    `the cut at checkpoint ${checkpoint} removed a different number of rows than were sealed`,
  head_missing: () => 'the expected head is not in the chain: newer checkpoints were removed or replaced',
};

export const faultLine = (fault: EvidenceFault): string =>
  `${fault.partition ?? 'checkpoints'}: ${faultText[fault.code](fault)}`;

/** Printed if the user gave no keys. */
export const keysFromServer = 'The keys come from the server itself. To verify independently, pass --public-key.';

/** Says which keys the result relies on. */
function trustLines({ signed_by, pinned, trusted_keys }: EvidenceReport): string[] {
  const signed = `Signed by ${signed_by.join(', ')}`;
  if (pinned) return [`${signed}: checked with your public keys.`];
  if (trusted_keys === 0)
    return [
      `${signed}: not verified, because the server returned no keys from its key file. This result proves nothing. Pass --public-key.`,
    ];
  return [`${signed}: checked with the keys of the server's key file.`, keysFromServer];
}

export function reportLines(report: EvidenceReport): string[] {
  const { faults, unlisted, rows, unsealed, head, sealed_from, cut_rows } = report;
  if (!head) return ['No evidence is sealed yet.'];
  const more = Object.entries(unlisted).map(([name, count]) => `${name}: ${formatCount(count, 'more fault')}`);
  const total = faults.length + Object.values(unlisted).reduce((sum, count) => sum + count, 0);
  return [
    ...faults.map(faultLine),
    ...more,
    ...(total > 0 ? [`Evidence does not match its checkpoints: ${formatCount(total, 'fault')}.`] : []),
    `${formatCount(rows, 'evidence row')} ${rows === 1 ? 'is' : 'are'} as sealed, in ${formatCount(head.position, 'checkpoint')} since ${sealed_from}.`,
    ...(cut_rows > 0 ? [`${formatCount(cut_rows, 'row')} removed by signed retention cuts.`] : []),
    ...(unsealed.rows > 0
      ? [
          `${formatCount(unsealed.rows, 'newest row')} ${unsealed.rows === 1 ? 'is' : 'are'} not sealed yet, so nothing protects ${unsealed.rows === 1 ? 'it' : 'them'}.`,
        ]
      : []),
    ...trustLines(report),
    `Head: ${head.hash}. Save this hash elsewhere; --expect-head then detects removed checkpoints.`,
  ];
}
