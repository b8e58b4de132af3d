/** Loads the dialog when it is first opened. */
import { loadOnDemand } from '../../ui/dialog/on-demand.tsx';

export const EndRestorationDialog = loadOnDemand(
  ({ opened }) => opened,
  async () => (await import('./EndRestorationDialog.tsx')).EndRestorationDialog,
);
