/** Lists the keys that work everywhere. */
import { Modal, Table } from '@mantine/core';
import styles from './KeyboardHelp.module.css';
import type { Place } from './navigation.ts';

interface Props {
  opened: boolean;
  onClose: () => void;
  places: Place[];
}

export function KeyboardHelp({ opened, onClose, places }: Props) {
  const rows = [
    { keys: ['/'], does: 'Search' },
    { keys: ['g', 'i'], does: 'Find any id' },
    ...places.map(({ key, label }) => ({ keys: ['g', key], does: `Go to ${label}` })),
    { keys: ['←', '↑', '↓', '→'], does: 'Move between the cells of the fleet' },
    { keys: ['Esc'], does: 'Close a dialog' },
    { keys: ['?'], does: 'This help' },
  ];
  return (
    <Modal opened={opened} onClose={onClose} title="Keyboard" closeButtonProps={{ 'aria-label': 'Close' }}>
      <Table verticalSpacing={6}>
        <Table.Tbody>
          {rows.map(({ keys, does }) => (
            <Table.Tr key={does}>
              <Table.Td w="45%">
                {keys.map((key) => (
                  <kbd key={key} className={styles.key}>
                    {key}
                  </kbd>
                ))}
              </Table.Td>
              <Table.Td>{does}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Modal>
  );
}
