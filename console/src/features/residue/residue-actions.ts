/** The actions on residue. */

import type { Residue } from '../../../../src/contract/supervision/residue.ts';
import { newKey } from '../../api/client.ts';
import { type Deed, dealWithResidue } from '../../api/queries/residue.ts';
import { toSentence } from '../../ui/text.ts';
import { type Action, dryRun, thenNotify } from '../actions/action.ts';
import { residueName } from './words.ts';

interface DeedWords {
  label: string;
  says: string;
  done: string;
}

/** As in the CLI. */
export const deeds: Record<Deed, DeedWords> = {
  verify: { label: 'Verify', says: 'Check now whether it still exists.', done: 'is being checked' },
  adopt: {
    label: 'Adopt',
    says: 'You become its owner. It no longer counts as residue.',
    done: 'is now yours',
  },
  delete: {
    label: 'Delete',
    says: 'Destroy the resources with our tags, with proof. You cannot undo this.',
    done: 'is being destroyed',
  },
};

export const deedNames = Object.keys(deeds) as Deed[];

export const residueAction = (residue: Residue, deed: Deed): Action => {
  const { label, says, done } = deeds[deed];
  return {
    title: `${label} · ${residueName(residue)}`,
    says,
    button: label,
    destructive: deed === 'delete',
    needsReason: true,
    predict: async () => {
      const { predicts } = await dealWithResidue(residue.residue_id, deed, dryRun, newKey());
      return { says: toSentence(predicts.says) };
    },
    run: ({ reason = '' }, key) =>
      thenNotify(`${residueName(residue)} ${done}`, dealWithResidue(residue.residue_id, deed, { reason }, key)),
  };
};
