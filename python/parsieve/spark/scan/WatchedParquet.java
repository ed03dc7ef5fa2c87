package parsieve;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.parquet.format.converter.ParquetMetadataConverter;
import org.apache.parquet.hadoop.ParquetFileReader;
import org.apache.parquet.hadoop.metadata.BlockMetaData;
import org.apache.spark.SparkException;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.util.SerializableConfiguration;

// Spark's own reader of Parquet files, but it fails if a file is no longer the one that the driver listed.
// Spark splits a file into parts by its listed size, so it would miss rows of a longer file that replaced it.
// If a plan kept only some row groups of a file, the reader skips the others.
public class WatchedParquet extends ParquetFileFormat {
    public scala.Function1 buildReaderWithPartitionValues(
            org.apache.spark.sql.SparkSession session,
            org.apache.spark.sql.types.StructType data,
            org.apache.spark.sql.types.StructType partition,
            org.apache.spark.sql.types.StructType required,
            SEQ filters,
            scala.collection.immutable.Map options,
            Configuration conf) {
        scala.Function1 inner =
            super.buildReaderWithPartitionValues(session, data, partition, required, filters, options, conf);
        return new Reader(inner, new SerializableConfiguration(conf));
    }

    public static class Reader extends scala.runtime.AbstractFunction1 implements java.io.Serializable {
        private final scala.Function1 inner;
        private final SerializableConfiguration conf;

        public Reader(scala.Function1 inner, SerializableConfiguration conf) {
            this.inner = inner;
            this.conf = conf;
        }

        public Object apply(Object given) {
            PartitionedFile file = (PartitionedFile) given;
            PartitionedFile[] parts = RowGroups.partsOf(file, conf.value());
            return parts == null ? open(file) : new Parts(parts, this);
        }

        public scala.collection.Iterator open(PartitionedFile file) {
            Watch watch = new Watch(file, conf.value());
            scala.collection.Iterator rows = null;
            try {
                rows = (scala.collection.Iterator) inner.apply(file);
            } catch (Throwable error) {
                watch.explain(error);
            }
            // Spark has read the footer and opened the file. If it is still the listed file, both steps used that file.
            watch.check();
            return new Rows(rows, watch);
        }
    }

    // Divides a part of a file into smaller parts that each contain one row group that the plan kept.
    public static class RowGroups {
        // The numbers of the kept row groups, separated by commas, in the metadata of a listed file.
        public static final String KEPT = "parsieve.row_groups";

        // Returns null if all row groups are to be read.
        public static PartitionedFile[] partsOf(PartitionedFile file, Configuration conf) {
            scala.Option kept = file.otherConstantMetadataColumnValues().get(KEPT);
            if (kept.isEmpty()) {
                return null;
            }
            PartitionedFile[] parts = null;
            try {
                parts = divide(file, conf, String.valueOf(kept.get()).split(","));
            } catch (Exception error) {
                // Spark's own reader reports the problem.
                return null;
            }
            // The footer must be that of the file that was planned.
            new Watch(file, conf).check();
            return parts;
        }

        private static PartitionedFile[] divide(PartitionedFile file, Configuration conf, String[] kept)
                throws java.io.IOException {
            java.util.List all = footer(file, conf, ParquetMetadataConverter.NO_FILTER);
            java.util.List here = within(file, conf, file.start(), file.length());
            java.util.List parts = new java.util.ArrayList();
            for (int at = 0; at < kept.length; at++) {
                BlockMetaData group = (BlockMetaData) all.get(Integer.parseInt(kept[at]));
                if (!contains(here, group)) {
                    continue;
                }
                // Spark reads the row groups whose middle is inside of a part.
                long middle = group.getStartingPos() + group.getCompressedSize() / 2;
                java.util.List found = within(file, conf, middle, 1);
                if (found.size() != 1 || !contains(found, group)) {
                    return null;
                }
                parts.add(file.copy(
                    file.partitionValues(), file.filePath(), middle, 1, file.locations(), file.modificationTime(),
                    file.fileSize(), file.otherConstantMetadataColumnValues()));
            }
            return (PartitionedFile[]) parts.toArray(new PartitionedFile[0]);
        }

        private static boolean contains(java.util.List groups, BlockMetaData group) {
            for (int at = 0; at < groups.size(); at++) {
                if (((BlockMetaData) groups.get(at)).getStartingPos() == group.getStartingPos()) {
                    return true;
                }
            }
            return false;
        }

        private static java.util.List within(PartitionedFile file, Configuration conf, long start, long length)
                throws java.io.IOException {
            return footer(file, conf, ParquetMetadataConverter.range(start, start + length));
        }

        private static java.util.List footer(
                PartitionedFile file, Configuration conf, ParquetMetadataConverter.MetadataFilter filter)
                throws java.io.IOException {
            return ParquetFileReader.readFooter(conf, file.toPath(), filter).getBlocks();
        }
    }

    // The rows of several parts of a file, which are opened one after the other.
    public static class Parts extends scala.collection.AbstractIterator implements java.io.Closeable {
        private final PartitionedFile[] parts;
        private final Reader reader;
        private int next = 0;
        private scala.collection.Iterator rows;

        public Parts(PartitionedFile[] parts, Reader reader) {
            this.parts = parts;
            this.reader = reader;
        }

        public boolean hasNext() {
            while (rows == null || !rows.hasNext()) {
                if (next == parts.length) {
                    return false;
                }
                rows = reader.open(parts[next]);
                next++;
            }
            return true;
        }

        public Object next() {
            if (!hasNext()) {
                throw new java.util.NoSuchElementException();
            }
            return rows.next();
        }

        public void close() throws java.io.IOException {
            next = parts.length;
            if (rows instanceof java.io.Closeable) {
                ((java.io.Closeable) rows).close();
            }
        }
    }

    public static class Watch {
        private final PartitionedFile file;
        private final Configuration conf;
        public final boolean isLocal;

        public Watch(PartitionedFile file, Configuration conf) {
            this.file = file;
            this.conf = conf;
            this.isLocal = "file".equals(file.toPath().toUri().getScheme());
        }

        // Throws a conflict if the file was replaced, which may be why a read failed, or else the error of the read.
        public void explain(Throwable error) {
            check();
            Platform.throwException(error);
        }

        public void check() {
            Path path = file.toPath();
            try {
                FileSystem filesystem = path.getFileSystem(conf);
                FileStatus now = filesystem.getFileStatus(path);
                if (now.getLen() == file.fileSize() && now.getModificationTime() == file.modificationTime()) {
                    return;
                }
            } catch (java.io.FileNotFoundException error) {
                // It was replaced or removed.
            } catch (java.io.IOException error) {
                Platform.throwException(error);
            }
            // With spark.sql.files.ignoreCorruptFiles, Spark would ignore a RuntimeException or an IOException.
            Platform.throwException(new SparkException(
                "ConflictError: " + path + " changed since the plan; run the query on a new DataFrame"));
        }
    }

    public static class Rows extends scala.collection.AbstractIterator implements java.io.Closeable {
        private final scala.collection.Iterator inner;
        private final Watch watch;
        private boolean more = true;

        public Rows(scala.collection.Iterator inner, Watch watch) {
            this.inner = inner;
            this.watch = watch;
        }

        public boolean hasNext() {
            if (more && !hasNextInner()) {
                more = false;
                if (watch.isLocal) {
                    // The file may have been overwritten in place. Streams of object stores detect that themselves.
                    watch.check();
                }
            }
            return more;
        }

        private boolean hasNextInner() {
            try {
                return inner.hasNext();
            } catch (Throwable error) {
                watch.explain(error);
                return false;
            }
        }

        public Object next() {
            try {
                return inner.next();
            } catch (Throwable error) {
                watch.explain(error);
                return null;
            }
        }

        public void close() throws java.io.IOException {
            if (inner instanceof java.io.Closeable) {
                ((java.io.Closeable) inner).close();
            }
        }
    }
}
