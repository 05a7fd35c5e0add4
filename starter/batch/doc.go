// Package batch reads batch files: rows that are transfers, as CSV or as JSON Lines.
//
// The promise: what a File has is what was checked. Each row is well formed, no ID is there with two contents, and the rows are
// in a file of our own from then on, so that nobody changes them between the check and the sending. A row that is not good is
// told with its line in the file and what to do. What the batch is, its ID and its chunks, follows from the rows alone: the same
// rows in another order, in the other format, or written otherwise ("10" and "10.00") are the same batch.
//
// Memory is bounded: some 80 bytes for each row, whatever is in it, and a few times that while they are sorted.
//
// What it does not promise: that rows are carried out in the order of the file; and that two rows which look alike are one
// payment. Only the ID decides.
package batch
